"""A stand-in for Ray that does everything at once in this process, where Ray is installed or not."""

from types import SimpleNamespace


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class RayActorError(RayError):
    pass


class OutOfMemoryError(RayError):
    pass


class RayStub:
    """The part of the module that suisei uses.

    Args:
        nodes: (cores, GPUs) of each machine.
        refuses: what a connection raises.
        begin: called where an actor begins, with what it is made of.
    """

    exceptions = SimpleNamespace(
        RayError=RayError,
        RayTaskError=RayTaskError,
        RayActorError=RayActorError,
        OutOfMemoryError=OutOfMemoryError,
    )

    def __init__(self, nodes=((2, 0),), refuses=None, begin=lambda *given: None):
        self._nodes, self._refuses, self._begin = nodes, refuses, begin
        self.connections, self.asked = [], []

    def is_initialized(self):
        return False

    def init(self, **settings):
        self.connections.append(settings)
        if self._refuses:
            raise self._refuses

    def nodes(self):
        dead = {"Alive": False, "Resources": {}}
        return [dead, *({"Alive": True, "Resources": _resources(*node)} for node in self._nodes)]

    def remote(self, kind):
        return SimpleNamespace(options=lambda **options: _Kind(self, kind, options))

    def wait(self, answers, num_returns, timeout):
        return list(answers)[:num_returns], list(answers)[num_returns:]

    def get(self, answer):
        try:
            return answer.call()
        except RayError:
            raise
        except Exception as error:  # noqa: BLE001 - as Ray does
            raise RayTaskError(error) from None

    def kill(self, actor):
        pass


def _resources(cores, gpus):
    return {name: float(count) for name, count in (("CPU", cores), ("GPU", gpus)) if count}


class _Kind:
    def __init__(self, ray, kind, options):
        self._ray, self._kind, self._options = ray, kind, options

    def remote(self, *given):
        self._ray.asked.append(self._options)
        self._ray._begin(*given)
        return _Actor(self._kind(*given))


class _Actor:
    def __init__(self, own):
        self._own = own

    def __getattr__(self, name):
        method = getattr(self._own, name)
        return SimpleNamespace(remote=lambda *given: _Answer(lambda: method(*given)))


class _Answer:
    def __init__(self, call):
        self.call = call
