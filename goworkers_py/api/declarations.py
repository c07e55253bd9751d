"""The jobs, links, handlers and hooks that a program's modules declare while they are imported."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from goworkers_py.api.job_writer import check_options
from goworkers_py.config.job_options import CodeOptions, checked, overridden
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.core.strikes import Lock
from goworkers_py.links.chain import Links
from goworkers_py.links.handlers import Handlers
from goworkers_py.policy.registry import Registry

if TYPE_CHECKING:
    from goworkers_py.api.client_links import ClientLink
    from goworkers_py.config.options import Config, QueueConfig
    from goworkers_py.links.around import Arounds
    from goworkers_py.links.chain import Middleware
    from goworkers_py.runtime.alive.health_handlers import HealthHandler


_ALL = ""


class Defaults:
    """The options of jobs whose own code does not give them: for a module, or for the whole application.

    Filled and read while modules are imported, so it has no lock.
    """

    def __init__(self) -> None:
        self._of: dict[str, CodeOptions] = {}  # by the module's name

    def add(self, module: str | None, options: CodeOptions) -> None:
        """Options that a module has already are overridden. Without a module they are those of the application."""
        name = module or _ALL
        self._of[name] = _over(options, self._of.get(name, CodeOptions()))

    def below(self, options: CodeOptions, function: Callable[..., Any]) -> CodeOptions:
        """The options of a job: its own, then those of its module, of the packages around it, of the application."""
        module = getattr(function, "__module__", None) or ""
        said = self._of.get(_ALL, CodeOptions())
        for name in accumulate(module.split("."), "{}.{}".format):
            said = _over(self._of.get(name, CodeOptions()), said)
        return _over(options, said)


def _over(options: CodeOptions, below: CodeOptions) -> CodeOptions:
    both: CodeOptions = overridden(options, below)  # type: ignore[assignment]
    return both


class Declarations:
    def __init__(self) -> None:
        self.registry = Registry()
        self.defaults = Defaults()
        self.links = Links()
        self.handlers = Handlers()
        self._arounds: Arounds | None = None  # made at the first use
        self.client_links: list[ClientLink] = []
        self.queues: dict[str, QueueConfig] = {}
        self.queue_links: dict[str, list[Middleware]] = {}
        self.before_start: list[Callable[[], None]] = []
        self.during_drain: list[Callable[[], None]] = []
        self.on_health: list[HealthHandler] = []
        self._lock = Lock()

    @property
    def arounds(self) -> Arounds:
        if self._arounds is None:
            from goworkers_py.links.around import Arounds

            self._arounds = Arounds()
        return self._arounds

    def options_of_job(self, options: CodeOptions, function: Callable[..., Any], job_class: str) -> CodeOptions:
        """The options of @job, checked, and the defaults below them."""
        said = self.defaults.below(code_options(options, "@job"), function)
        try:
            check_options(options, said, job_class)
        except ArgumentError as error:
            raise ConfigError(f"@job: {job_class}: {error}") from None
        return said

    def import_jobs(self, config: Config) -> None:
        """Imports the modules of `require`, which declare their jobs."""
        from goworkers_py.api.import_jobs import import_jobs

        import_jobs(config, self.client_links)

    def client_links_of(self, config: Config) -> list[ClientLink]:
        """The declared client links, and those of the configuration, each once."""
        if not config.middleware.client:
            return self.client_links
        from goworkers_py.config.user_code import resolve

        of_config = [resolve(path, "[middleware] client") for path in config.middleware.client]
        if any(link not in self.client_links for link in of_config):
            with self._lock:  # the threads of a program may push for the first time at once
                self.client_links += [link for link in of_config if link not in self.client_links]
        return self.client_links


def code_options(options: CodeOptions, place: str) -> CodeOptions:
    """Checks the options where the job is declared, not at its first failure. `place` is for the error."""
    try:
        valid: CodeOptions = checked(options, CodeOptions)  # type: ignore[assignment]
        return valid
    except ArgumentError as error:
        raise ConfigError(f"{place}: {error}") from None
