"""Every resource over real kernels: what it says, how it refuses, how it is negotiated."""

import gzip
import json
from typing import Any

import aiohttp
import msgspec
import pytest

from inspection.routes import ROUTES
from metadata.snapshot import encode_snapshot, snapshot_records
from tests.inspection.conftest import Site, open_site, ready_world
from tests.kernel.harness import World
from wire import api_keys
from wire.messages import codec


@pytest.fixture(scope="module")
def served_world() -> World:
    """One serves all requests that change nothing; `changing` opens another."""
    return ready_world()


async def changing() -> Site:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    return await open_site(world, leader)


async def test_the_quorum_as_its_leader_sees_it(site: Site) -> None:
    quorum = await site.get("/v1/quorum")
    assert quorum["leader_id"] == quorum["node_id"] == site.node_id
    assert quorum["role"] == "leader"
    assert quorum["told_by"] == "leader"
    assert [voter["id"] for voter in quorum["voters"]] == [1, 2, 3]
    assert {voter["lag"] for voter in quorum["voters"]} == {0}
    assert [e["leader_id"] for e in quorum["elections"]] == [site.node_id]
    assert quorum["not_ready"] == []


async def test_a_follower_without_the_leaders_word_says_what_it_knows() -> None:
    world = ready_world()
    follower = next(i for i in (1, 2, 3) if i != world.active())
    site = await open_site(world, follower)
    quorum = await site.get("/v1/quorum")
    await site.client.close()
    assert (quorum["role"], quorum["told_by"]) == ("follower", "this node")
    assert quorum["leader_id"] == world.active()
    assert [v["log_end_offset"] for v in quorum["voters"] if v["id"] != follower] == [None, None]


async def test_topics_come_in_pages_by_name(site: Site) -> None:
    first = await site.get("/v1/topics?limit=2")
    assert [topic["name"] for topic in first["topics"]] == ["orders", "payments"]
    assert first["next_after"] == "payments"
    assert first["topic_count"] == 3
    rest = await site.get(f"/v1/topics?limit=2&after={first['next_after']}")
    assert [topic["name"] for topic in rest["topics"]] == ["users"]
    assert rest["next_after"] is None


async def test_one_topic_with_partitions(site: Site) -> None:
    topic = await site.get("/v1/topics/orders")
    assert [p["partition"] for p in topic["partitions"]] == [0, 1, 2]
    assert all(sorted(p["replicas"]) == [1, 2, 3] for p in topic["partitions"])
    assert len(topic["topic_id"]) == 22


async def test_partitions_by_state() -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    site = await open_site(world, leader)
    assert (await site.get("/v1/partitions?filter=under_replicated"))["partitions"] == []
    dead = next(i for i in (1, 2, 3) if i != leader)
    world.kill(dead)
    world.run_until(lambda: world.kernel(leader).cache.image.brokers[dead].fenced)
    under = (await site.get("/v1/partitions?filter=under_replicated"))["partitions"]
    assert {p["topic"] for p in under} >= {"orders"}
    assert all(dead not in p["isr"] for p in under)
    at_min = (await site.get("/v1/partitions?filter=at_min_isr"))["partitions"]
    assert all(len(p["isr"]) == 1 for p in at_min)
    no_leader = (await site.get("/v1/partitions?filter=no_leader"))["partitions"]
    assert all(p["leader"] is None for p in no_leader)
    await site.client.close()


async def test_partitions_come_in_pages(site: Site) -> None:
    seen: list[tuple[str, int]] = []
    path = "/v1/partitions?limit=4"
    while True:
        page = await site.get(path)
        seen += [(p["topic"], p["partition"]) for p in page["partitions"]]
        if page["next_after"] is None:
            break
        path = f"/v1/partitions?limit=4&after={page['next_after']}"
    assert seen == sorted(seen)
    assert len(seen) == len(set(seen)) == 6


async def test_brokers_say_what_they_lead(site: Site) -> None:
    brokers = (await site.get("/v1/brokers"))["brokers"]
    assert [b["id"] for b in brokers] == [1, 2, 3]
    assert sum(b["leader_count"] for b in brokers) == 6
    assert (await site.get("/v1/brokers/2"))["broker"] == brokers[1]


async def test_brokers_come_in_pages_by_id(site: Site) -> None:
    first = await site.get("/v1/brokers?limit=2")
    assert [broker["id"] for broker in first["brokers"]] == [1, 2]
    assert (first["broker_count"], first["next_after"]) == (3, 2)
    rest = await site.get("/v1/brokers?limit=2&after=2")
    assert [broker["id"] for broker in rest["brokers"]] == [3]
    assert rest["next_after"] is None
    assert (await site.get("/v1/brokers?after=3"))["brokers"] == []


def set_quotas(world: World, *client_ids: str | None) -> None:
    """A producer quota for each client id; None is the default one."""
    new = codec.newest(api_keys.ALTER_CLIENT_QUOTAS, "request")
    entries = tuple(
        new.EntryData(
            entity=(new.EntityData(entity_type="client-id", entity_name=client_id),),
            ops=(new.OpData(key="producer_byte_rate", value=1000.0, remove=False),),
        )
        for client_id in client_ids
    )
    body = new.AlterClientQuotasRequest(entries=entries, validate_only=False)
    answer = world.client(1).call(api_keys.ALTER_CLIENT_QUOTAS, body)
    assert [int(entry.error_code) for entry in answer.entries] == [0] * len(client_ids)
    world.run_for(50)


async def test_quotas_come_in_pages_and_the_image_counts_them() -> None:
    site = await changing()
    set_quotas(site.world, "b", "a", None)
    whole = await site.get("/v1/quotas")
    assert [row["entity"]["client-id"] for row in whole["quotas"]] == [None, "a", "b"]
    assert (whole["quota_count"], whole["next_after"]) == (3, None)
    first = await site.get("/v1/quotas?limit=2")
    assert first["next_after"] == 2
    rest = await site.get("/v1/quotas?limit=2&after=2")
    assert first["quotas"] + rest["quotas"] == whole["quotas"]
    assert rest["next_after"] is None
    assert (await site.get("/v1/quotas?after=3"))["quotas"] == []
    counts = (await site.get("/v1/metadata/image"))["counts"]
    expected = {"brokers": 3, "topics": 3, "partitions": 6, "client_quotas": 3, "acls": 0}
    assert counts.items() >= expected.items()
    await site.client.close()
    assert site.errors == []


async def test_the_log_is_decoded(site: Site) -> None:
    page = await site.get("/v1/metadata/records?from=0&limit=5")
    assert [r["offset"] for r in page["records"]] == [0, 1, 2, 3, 4]
    assert page["records"][0]["type"] == "LeaderChange"
    assert page["next_offset"] == 5
    at_end = await site.get(f"/v1/metadata/records?from={page['metadata_offset']}")
    assert at_end["records"] == []


async def test_all_records_read_in_pages_are_all_records(site: Site) -> None:
    offsets: list[int] = []
    start = 0
    while True:
        page = await site.get(f"/v1/metadata/records?from={start}&limit=3")
        offsets += [r["offset"] for r in page["records"]]
        start = page["next_offset"]
        if start == page["metadata_offset"]:
            break
    assert offsets == list(range(page["metadata_offset"]))


async def test_time_travel_shows_the_topics_of_then(site: Site) -> None:
    records = (await site.get("/v1/metadata/records"))["records"]
    created = {r["data"]["name"]: r["offset"] for r in records if r["type"] == "TOPIC_RECORD"}
    before = await site.get(f"/v1/metadata/at/{created['payments']}/topics")
    assert [t["name"] for t in before["topics"]] == ["orders"]
    assert before["metadata_offset"] == created["payments"]
    at_once = await site.get(f"/v1/metadata/at/{created['payments'] + 1}/topics")
    assert [(t["name"], t["partition_count"]) for t in at_once["topics"]] == [
        ("orders", 3),
        ("payments", 0),
    ]
    assert (await site.get("/v1/metadata/at/0/topics"))["topics"] == []


async def test_the_image_at_every_offset_grows_by_one_record(site: Site) -> None:
    for offset in range(site.end_offset + 1):
        page = await site.get(f"/v1/metadata/at/{offset}/topics")
        assert page["metadata_offset"] == offset


async def test_a_diff_names_what_changed(site: Site) -> None:
    records = (await site.get("/v1/metadata/records"))["records"]
    offset = next(r["offset"] for r in records if r["type"] == "TOPIC_RECORD")
    diff = await site.get(f"/v1/metadata/diff?from={offset}")
    kinds = [(c["kind"], c["key"], c["change"]) for c in diff["changes"]]
    assert ("topic", "orders", "added") in kinds
    assert ("partition", "payments-1", "added") in kinds
    assert diff["change_count"] == len(kinds) == 9
    page = await site.get(f"/v1/metadata/diff?from={offset}&limit=2&after=1")
    assert page["changes"] == diff["changes"][1:3]
    assert page["next_after"] == 3
    assert (await site.get(f"/v1/metadata/diff?from={offset}&to={offset}"))["changes"] == []
    back = await site.get(f"/v1/metadata/diff?from={site.end_offset}&to={offset}")
    assert {c["change"] for c in back["changes"]} == {"removed"}


async def test_offsets_that_a_snapshot_replaced_are_gone() -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    site = await open_site(world, leader)
    kernel = world.kernel(leader)
    end = kernel.cache.image.provenance.end_offset
    write_snapshot(kernel)
    log = kernel.log
    log.roll(log.end_offset, 0)
    log.raise_log_start_to(end)
    assert log.log_start_offset == end
    gone = await site.get("/v1/metadata/records?from=0", 410)
    assert (gone["parameter"], gone["value"]) == ("from", "0")
    assert f"from {end} to" in gone["allowed"]
    await site.get("/v1/metadata/at/1/topics", 410)
    await site.get(f"/v1/metadata/diff?from=1&to={end}", 410)
    then = await site.get(f"/v1/metadata/at/{end}/topics")
    assert [t["name"] for t in then["topics"]] == ["orders", "payments", "users"]
    await site.client.close()


def write_snapshot(kernel: Any) -> None:
    """A snapshot file of the committed image, as the node itself writes it."""
    image = kernel.cache.image
    writer = kernel.snapshot_files.writer(image.provenance.snapshot_id)
    for batch in encode_snapshot(
        snapshot_records(image),
        level=image.metadata_version,
        epoch=image.provenance.epoch,
        last_contained_timestamp_ms=image.provenance.timestamp_ms,
        timestamp_ms=0,
    ):
        writer.append(batch)
    writer.freeze()


async def test_readiness_lists_its_checks() -> None:
    world = World(3)
    world.start_all()
    site = await open_site(world, 1)
    unready = await site.get("/readyz?verbose", 503)
    assert unready["status"] == "failed"
    assert set(unready["failed"]) >= {"leader_known", "unfenced"}
    assert [c["name"] for c in unready["checks"]] == [
        "leader_known",
        "caught_up",
        "high_watermark_moving",
        "unfenced",
    ]
    assert (await site.get("/livez"))["status"] == "ok"
    world.run_until(world.is_ready)
    assert await site.get("/readyz") == {"status": "ok"}
    world.kill(2)
    world.kill(3)
    world.run_for(6_000)
    assert "high_watermark_moving" in (await site.get("/readyz", 503))["failed"]
    await site.client.close()


async def test_an_etag_is_the_metadata_offset() -> None:
    site = await changing()
    response = await site.client.get("/v1/topics")
    etag = response.headers["ETag"]
    assert etag == f'W/"{site.end_offset}"'
    packed = {"Accept": "application/msgpack", "Accept-Encoding": "gzip"}
    assert (await site.client.get("/v1/topics", headers=packed)).headers["ETag"] == etag
    again = await site.client.get("/v1/topics", headers={"If-None-Match": etag})
    assert (again.status, await again.read()) == (304, b"")
    site.world.client(1).create_topic("more")
    site.world.run_for(50)
    changed = await site.client.get("/v1/topics", headers={"If-None-Match": etag})
    assert changed.status == 200
    await site.client.close()
    assert site.errors == []


async def test_msgpack_says_the_same_as_json(site: Site) -> None:
    for path in ("/v1/topics", "/v1/metadata/image", "/v1/quorum", "/v1/metadata/records"):
        plain = await site.get(path)
        response = await site.client.get(path, headers={"Accept": "application/msgpack"})
        assert response.headers["Content-Type"] == "application/msgpack"
        assert msgspec.msgpack.decode(await response.read()) == plain


async def test_large_answers_are_compressed_for_who_accepts_it(site: Site) -> None:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        url = site.client.make_url("/v1/metadata/image")
        async with session.get(url, headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            packed = json.loads(gzip.decompress(await response.read()))
        async with session.get(url, headers={"Accept-Encoding": "identity"}) as response:
            assert "Content-Encoding" not in response.headers
            assert json.loads(await response.read()) == packed


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/v1/topics?limit=0", "limit"),
        ("/v1/topics?limit=10001", "limit"),
        ("/v1/topics?limit=ten", "limit"),
        ("/v1/topics?limit=", "limit"),
        ("/v1/topics?limit=1&limit=2", "limit"),
        ("/v1/topics?limt=1", "limt"),
        ("/v1/topics?after=" + "x" * 1001, "after"),
        ("/v1/brokers/x", "id"),
        ("/v1/brokers?after=x", "after"),
        ("/v1/brokers?limit=0", "limit"),
        ("/v1/quotas?after=-1", "after"),
        ("/v1/quotas?limit=10001", "limit"),
        ("/v1/brokers/-1", "id"),
        ("/v1/brokers/2147483648", "id"),
        ("/v1/partitions?filter=broken", "filter"),
        ("/v1/partitions?after=orders", "after"),
        ("/v1/configs/topics/orders", "type"),
        ("/v1/metadata/records?from=-1", "from"),
        ("/v1/metadata/records?from=9223372036854775808", "from"),
        ("/v1/metadata/at/1.5/topics", "offset"),
        ("/v1/metadata/diff", "from"),
        ("/readyz?verbose=1", "verbose"),
        ("/v1/metadata/stream?from=x", "from"),
    ],
)
async def test_a_bad_parameter_is_named(site: Site, path: str, parameter: str) -> None:
    response = await site.client.get(path)
    assert response.status == 400
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = await response.json(content_type=None)
    assert problem["parameter"] == parameter
    assert problem["status"] == 400
    assert parameter in problem["detail"]


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/v1/topics/nothing", "name"),
        ("/v1/brokers/9", "id"),
        ("/v1/configs/topic/nothing", "name"),
        ("/v1/configs/broker/one", "name"),
        ("/v1/metadata/records?from=99999", "from"),
        ("/v1/metadata/at/99999/topics", "offset"),
        ("/v1/metadata/diff?from=1&to=99999", "to"),
        ("/v2/quorum", None),
        ("/v1/topics/", None),
    ],
)
async def test_what_does_not_exist_is_404(site: Site, path: str, parameter: str | None) -> None:
    problem = await site.get(path, 404)
    assert problem.get("parameter") == parameter


async def test_the_api_only_reads(site: Site) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        response = await site.client.request(method, "/v1/topics")
        assert response.status == 405
        assert response.headers["Allow"] == "GET, HEAD"
        assert (await response.json(content_type=None))["value"] == method


async def test_an_unacceptable_media_type_is_406(site: Site) -> None:
    problem = await site.get("/v1/topics", 406, Accept="text/csv")
    assert "application/msgpack" in problem["allowed"]
    await site.get("/v1/topics", 200, Accept="text/html, */*;q=0.1")


async def test_metrics_have_the_names_of_kafkas(site: Site) -> None:
    text = await (await site.client.get("/metrics")).text()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values["kafka_controller_kafkacontroller_activecontrollercount"] == "1.0"
    assert values["kafka_controller_kafkacontroller_globaltopiccount"] == "3.0"
    assert values["kafka_controller_kafkacontroller_globalpartitioncount"] == "6.0"
    assert values["kafka_server_raft_metrics_current_leader"] == f"{float(site.node_id)}"
    assert values['kafka_server_raft_metrics_current_state_info{state="leader"}'] == "1.0"
    assert values['kafka_server_raft_metrics_current_state_info{state="follower"}'] == "0.0"
    assert "kafka_server_replicamanager_leadercount" in values


async def test_the_document_describes_every_route(site: Site) -> None:
    described = await site.get("/openapi.json")
    assert described["openapi"] == "3.1.0"
    assert {route.path for route in ROUTES} <= set(described["paths"])
    for path, item in described["paths"].items():
        named = {p["name"] for p in item["get"].get("parameters", ()) if p["in"] == "path"}
        assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}
    ids = [item["get"]["operationId"] for item in described["paths"].values()]
    assert len(ids) == len(set(ids))
