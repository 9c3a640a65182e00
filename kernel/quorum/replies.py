"""Who waits for which answer: tokens that the core and the controller give back."""

from network.peers import Answered

Reply = Answered


class Replies:
    """Tokens are used once. A reply whose asker has gone away is simply dropped by its function."""

    __slots__ = ("_by_token", "_next_token")

    def __init__(self) -> None:
        self._by_token: dict[int, Reply] = {}
        self._next_token = 1

    def __len__(self) -> int:
        """How many answers are outstanding."""
        return len(self._by_token)

    def expect(self, reply: Reply) -> int:
        """A new token for a function that takes the answer."""
        token = self._next_token
        self._next_token += 1
        self._by_token[token] = reply
        return token

    def answer(self, token: int, value: object) -> None:
        """Hand over the answer; a token is answered exactly once."""
        self._by_token.pop(token)(value)
