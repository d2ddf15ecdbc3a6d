"""Arrays in device memory: of the tests' device, which only copies reach, or (RINGWAY_TEST_GPU=1) of torch on a GPU.

Trainers are processes of their own, since a process has one device library.
"""
import os
import pathlib
import unittest

from cluster import ClusterTest

DEVICE_LIBRARY = pathlib.Path(os.environ["RINGWAY_TEST_DEVICE_LIBRARY"])

# OnDevice(array): a copy in device memory, which exports itself by DLPack. host(x): what is there.
TEST_DEVICE = """
import ctypes
from cluster import Exporter
import os
library = ctypes.CDLL(os.environ["RINGWAY_DEVICE_LIBRARY"])
library.RingwayTestDeviceAllocate.restype = ctypes.c_void_p
library.RingwayTestDeviceAllocate.argtypes = [ctypes.c_int, ctypes.c_size_t]
library.RingwayTestDeviceCopy.restype = ctypes.c_bool
library.RingwayTestDeviceCopy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

class OnDevice(Exporter):
    def __init__(self, array):
        super().__init__(array.copy(), device=2, data=library.RingwayTestDeviceAllocate(0, max(1, array.nbytes)))
        assert library.RingwayTestDeviceCopy(self.data, self.array.ctypes.data, array.nbytes)

def host(x):
    out = numpy.empty_like(x.array)
    assert library.RingwayTestDeviceCopy(out.ctypes.data, x.data, out.nbytes)
    return out
"""

TORCH = """
import torch
def OnDevice(array): return torch.from_numpy(array).cuda()
def host(x): return x.cpu().numpy()
"""

COMMON = """
def values(rank, count=1003): return (numpy.arange(count) % 3 + 1 + rank).astype("float32")
def check(x, wanted): numpy.testing.assert_array_equal(host(x), wanted)
"""


class DeviceTest(ClusterTest):
    WORLD = 3

    def setUp(self):
        super().setUp()
        self.on_gpu = os.environ.get("RINGWAY_TEST_GPU") == "1"
        path = os.pathsep.join([str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        self.environment = {"PYTHONPATH": path}
        if not self.on_gpu:
            if not DEVICE_LIBRARY.exists():
                self.skipTest(f"{DEVICE_LIBRARY} is not built")
            self.environment["RINGWAY_DEVICE_LIBRARY"] = str(DEVICE_LIBRARY)

    def run_everywhere(self, script, world=WORLD):
        """All ranks say "done" at the end of the script."""
        prelude = (TORCH if self.on_gpu else TEST_DEVICE) + COMMON
        saved = dict(os.environ)
        os.environ.update(self.environment)
        try:
            trainers = [self.trainer(i, world, prelude + script + '\nsay("done")\n') for i in range(world)]
        finally:
            os.environ.clear()
            os.environ.update(saved)
        for trainer in trainers:
            self.assertEqual(trainer.end(), 0, trainer.text())
            self.assertIn("done", trainer.text())

    def test_collectives_take_it_and_host_memory_beside_it(self):
        self.run_everywhere("""
with join() as session:
    r, all_values = session.rank, [values(i) for i in range(WORLD)]
    total = sum(all_values)
    x = OnDevice(values(r))
    session.all_reduce(x)
    check(x, total)
    x, out = OnDevice(values(r)), OnDevice(numpy.zeros(1003, "float32"))
    session.all_reduce(x, "max", out=out)
    check(x, values(r))
    check(out, numpy.max(all_values, axis=0))
    from_host = OnDevice(numpy.zeros(1003, "float32"))
    session.all_reduce(values(r), out=from_host)
    check(from_host, total)
    to_host = numpy.zeros(1003, "float32")
    session.all_reduce(x, out=to_host)
    numpy.testing.assert_array_equal(to_host, total)
    gathered = OnDevice(numpy.zeros((WORLD, 1003), "float32"))
    session.all_gather(x, out=gathered)
    check(gathered, numpy.stack(all_values))
    part = OnDevice(values(r))
    result = session.reduce_scatter(part)
    numpy.testing.assert_array_equal(host(part)[result.part], total[result.part])
    cast = OnDevice(values(r))
    session.broadcast(cast, 1)
    check(cast, values(1))
    x, out = OnDevice(numpy.arange(WORLD, dtype="float32") + 10 * r), OnDevice(numpy.zeros(WORLD, "float32"))
    session.all_to_all(x, out=out)
    check(out, 10 * numpy.arange(WORLD) + r)
    everything = OnDevice(numpy.zeros(3 * (r + 1), "float32"))
    session.all_to_all_v(OnDevice(numpy.full(6, r, "float32")), out=everything, send_begins=[0] * WORLD,
                         send_counts=[1, 2, 3], receive_counts=[r + 1] * WORLD)
    check(everything, numpy.repeat(numpy.arange(WORLD), r + 1))
    large = OnDevice(values(r, 3_000_001))
    session.all_reduce(large, codec="int8")
    assert abs(host(large) - sum(values(i, 3_000_001) for i in range(WORLD))).max() < 1
""")

    def test_a_stream_waits_for_the_result(self):
        self.run_everywhere("""
with join() as session:
    x = OnDevice(values(session.rank, 500_000))
    work = session.all_reduce_async(x, stream=None)
    work.wait_on_stream(None)
    check(x, sum(values(i, 500_000) for i in range(WORLD)))  # copies of the default stream come after
    assert work.wait().world_size == WORLD
    y = numpy.zeros(8, "float32")
    try:
        session.all_reduce_async(y).wait_on_stream(None)
    except ringway.InvalidArgument as refused:
        assert "host memory" in refused.message
    else:
        raise AssertionError("a stream waits for host memory")
    session.barrier()
""")

    def test_a_wait_for_an_input_that_hangs_ends_by_ctrl_c_and_by_cancel(self):
        if self.on_gpu:
            self.skipTest("needs an input that hangs")
        self.environment["RINGWAY_TEST_DEVICE"] = "hang_one_in=1"
        self.run_everywhere("""
import os
import signal
import threading
with join() as session:
    x = OnDevice(values(0))
    work = session.all_reduce_async(x)
    try:
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        work.wait_on_stream(None)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("it had a stream wait for what hangs")
    raised = []
    def wait():
        try:
            work.wait_on_stream(None)
        except ringway.Cancelled as cancelled:
            raised.append(cancelled)
    waiter = threading.Thread(target=wait)
    waiter.start()
    waiter.join(0.5)
    assert waiter.is_alive()
    work.cancel()
    waiter.join()
    assert raised
say("done")
os._exit(0)  # the copy hangs for ever
""", world=1)

    def test_what_a_dropped_work_may_still_copy_is_kept_until_the_update(self):
        self.run_everywhere("""
import gc
import weakref
with join() as session:
    x = OnDevice(values(session.rank))
    alive = weakref.ref(getattr(x, "array", x))
    work = session.all_reduce_async(x)
    del work, x
    gc.collect()
    assert alive() is not None or "torch" in sys.modules, "the memory of a copy was freed"  # torch exports another object
    session.update_view()
    gc.collect()
    assert alive() is None, "memory is kept for ever"
""")

    def test_what_a_dropped_session_still_copies_is_kept_until_it_is_copied(self):
        if self.on_gpu:
            self.skipTest("needs a copy that lasts")
        self.environment["RINGWAY_TEST_DEVICE"] = "delay_us=300000"  # a slice
        self.run_everywhere("""
import gc
import weakref
from cluster import eventually
for is_beside_a_buffer in (False, True):
    session = join()
    x = OnDevice(values(0, 20_000_000))
    out = session.empty(x.array.shape, "float32") if is_beside_a_buffer else x
    alive = weakref.ref(x.array)
    work = session.all_reduce_async(x, out=out)
    session.abort()
    del work, session, x, out
    gc.collect()
    assert alive() is not None, "the memory of a copy was freed"
    eventually(lambda: alive() is None)
""", world=1)

    def test_streams_of_every_kind_and_what_is_none(self):
        self.run_everywhere("""
class Protocol:
    def __cuda_stream__(self): return (0, 0)
class Torch:
    cuda_stream = 0
class CuPy:
    ptr = 0
with join() as session:
    for stream in (None, 0, Protocol(), Torch(), CuPy()):
        session.all_reduce(OnDevice(values(0)), stream=stream)
    for wrong in ("default", -1, 1.5, object()):
        try:
            session.all_reduce(OnDevice(values(0)), stream=wrong)
        except ringway.InvalidArgument as refused:
            assert "stream is" in refused.message
        else:
            raise AssertionError(f"{wrong!r} is a stream")
""")

    def test_memory_that_the_driver_does_not_know_is_refused(self):
        if self.on_gpu:
            self.skipTest("an address of the tests' device")
        self.run_everywhere("""
with join() as session:
    try:
        session.all_reduce(Exporter(values(0), device=2))
    except ringway.InvalidArgument as refused:
        assert "its driver denies" in refused.message
    else:
        raise AssertionError("host memory was taken for a GPU's")
""")


if __name__ == "__main__":
    unittest.main()
