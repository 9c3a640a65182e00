"""Outstanding replies by token; the core and the controller return the token with the answer."""

from network.peers import Answered

Reply = Answered


class Replies:
    """Reply functions by token, each called once; that of a closed connection drops the answer."""

    __slots__ = ("_by_token", "_next_token")

    def __init__(self) -> None:
        self._by_token: dict[int, Reply] = {}
        self._next_token = 1

    def __len__(self) -> int:
        """Return the number of outstanding answers."""
        return len(self._by_token)

    def expect(self, reply: Reply) -> int:
        """Return a new token for a function that takes the answer."""
        token = self._next_token
        self._next_token += 1
        self._by_token[token] = reply
        return token

    def answer(self, token: int, value: object) -> None:
        """Pass the answer to the function of the token; a token is answered exactly once."""
        self._by_token.pop(token)(value)
