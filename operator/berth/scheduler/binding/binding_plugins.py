"""What the plugins of a policy do about one pod that has been given a node: each stage asks them in order, with care.

    reserve, permit            at once, in the step of the decision; a plugin that refuses makes the pod unschedulable
    wait                       until every plugin that said so has allowed it, one has rejected it, or its time is up
    pre_bind                   one plugin after the other; a plugin that refuses has the pod tried again later
    bind                       the first plugin that does it; none of them: whoever binds otherwise
    end                        once: every plugin hears that the pod is bound, or, in reverse order, that it is not

A plugin that raises, answers with what is no answer or does not come back in time costs the pod this node, is counted
with its policy, and harms nobody else. What it raises at the end, where nothing hangs on it any more, is counted only.

What it does not do: hold room, queue pods, report (`Stages`).
"""

import asyncio
from typing import Final

from berth.engine.binding_points import LONGEST_WAIT_SECONDS, BindingPlugin, Permit, WaitingPod, takes_part
from berth.engine.custom_plugins.plugin_validation import in_words, show
from berth.model import Pod
from berth.policy.compile import ActivePolicy
from berth.policy.usage import Usage
from berth.scheduler.error_log import ErrorLog
from berth.scheduler.log_fields import about
from berth.scheduler.ports import Clock, OutcomeUnknown
from berth.scheduler.waiting import finish_within, wait_for_signal

LONGEST_STAGE_SECONDS: Final = 600.0
TITLES: Final = {"reserve": "Reserve", "permit": "Permit", "pre_bind": "PreBind", "bind": "Bind"}


class Stopped(Exception):
    """The pod does not get the node; the message is for people.

    With a `rejecter` it is unschedulable until something changes this plugin's mind; without, it is tried again after
    its backoff. `error`: something failed, rather than that somebody decided so.
    """

    def __init__(self, message: str, *, rejecter: BindingPlugin | None = None, error: bool = False) -> None:
        super().__init__(message)
        self.rejecter = rejecter
        self.error = error


class BindingPlugins:
    """One pod's way from the decision to the node."""

    def __init__(
        self, pod: Pod, node_name: str, active: ActivePolicy, *, clock: Clock, usage: Usage, faults: ErrorLog
    ) -> None:
        self.pod = pod
        self.node_name = node_name
        self._active = active
        self._clock = clock
        self._usage = usage
        self._faults = faults
        self._plugins: tuple[BindingPlugin, ...] = ()
        self._deadlines: dict[str, tuple[float, float]] = {}  # of those who have not allowed it: when, and how long
        self._rejection: Stopped | None = None
        self._signal = asyncio.Event()
        self._is_over = False

    # --- reserve and permit ------------------------------------------------------------------------------------------

    def reserve(self) -> None:
        """Ask those plugins that the pod concerns, from now on; raises Stopped."""
        self._plugins = tuple(plugin for plugin in self._active.stages if self._concerns(plugin))
        for plugin in self._plugins:
            refusal = self._ask(plugin, "reserve")
            if refusal is not None:
                raise Stopped(_nowhere(self._text(plugin, "reserve", refusal)), rejecter=plugin)

    def permit(self) -> None:
        """Raises Stopped; afterwards the pod waits, or need not."""
        deadlines: dict[str, tuple[float, float]] = {}
        for plugin in self._plugins:
            answer = self._ask(plugin, "permit")
            if not isinstance(answer, Permit):
                raise self._failed(plugin, "permit", f"permit() gave {show(answer)}, not a Permit")
            if answer.verdict == "reject":
                raise Stopped(_nowhere(answer.reason), rejecter=plugin)
            if answer.verdict == "wait":
                seconds = min(answer.seconds, LONGEST_WAIT_SECONDS)
                deadlines[plugin.name] = self._clock.now() + seconds, seconds
        self._deadlines = deadlines

    # --- waiting to be allowed ---------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether somebody has still to allow it."""
        return bool(self._deadlines) and self._rejection is None

    def seen(self) -> WaitingPod:
        return WaitingPod(self.pod, self.node_name, tuple(self._deadlines))

    def allow(self, plugin: str) -> bool:
        if not self.is_waiting or self._deadlines.pop(plugin, None) is None:
            return False
        self._signal.set()
        return True

    def reject(self, plugin: BindingPlugin, reason: str) -> bool:
        if not self.is_waiting:
            return False
        self._rejection = Stopped(_nowhere(reason), rejecter=plugin)
        self._signal.set()
        return True

    async def wait(self) -> None:
        """Until it may go on; raises Stopped."""
        while self.is_waiting:
            name, (deadline, seconds) = min(self._deadlines.items(), key=lambda entry: entry[1])
            left_seconds = deadline - self._clock.now()
            if left_seconds <= 0:
                plugin = next(plugin for plugin in self._plugins if plugin.name == name)
                self.reject(plugin, f"rejected due to timeout after waiting {_duration(seconds)} at plugin {name}")
                break
            self._signal.clear()
            await wait_for_signal(self._signal, self._clock, left_seconds)
        if self._rejection is not None:
            raise self._rejection

    # --- binding -----------------------------------------------------------------------------------------------------

    @property
    def prepares(self) -> bool:
        """Whether a plugin has something to do before the pod is bound."""
        return any(takes_part(type(plugin), "pre_bind") for plugin in self._plugins)

    @property
    def binders(self) -> tuple[str, ...]:
        """The plugins that may bind the pod."""
        return tuple(plugin.name for plugin in self._plugins if takes_part(type(plugin), "bind"))

    async def pre_bind(self) -> None:
        """Raises Stopped."""
        for plugin in self._plugins:
            if takes_part(type(plugin), "pre_bind"):
                refusal = await self._await(plugin, "pre_bind")
                if refusal is not None:
                    raise Stopped(self._text(plugin, "pre_bind", refusal))

    async def bind(self) -> bool:
        """Whether a plugin has bound the pod; raises OutcomeUnknown where one has failed."""
        try:
            for plugin in self._plugins:
                if takes_part(type(plugin), "bind"):
                    done = await self._await(plugin, "bind")
                    if not isinstance(done, bool):
                        raise self._failed(plugin, "bind", f"bind() gave {show(done)}, not True or False")
                    if done:
                        return True
        except Stopped as failure:
            raise OutcomeUnknown(str(failure)) from failure
        return False

    def end(self, *, bound: bool) -> None:
        """The pod is bound, or does not get the node."""
        self._is_over = True
        stage = "post_bind" if bound else "unreserve"
        for plugin in self._plugins if bound else reversed(self._plugins):
            try:
                getattr(plugin, stage)(self.pod, self.node_name)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # of whatever kind: somebody else wrote it
                self._note(plugin, f"{stage}() raised {in_words(error)}", error)

    # --- asking ------------------------------------------------------------------------------------------------------

    def _concerns(self, plugin: BindingPlugin) -> bool:
        try:
            return plugin.concerns(self.pod)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of whatever kind: somebody else wrote it
            raise self._failed(plugin, "reserve", f"concerns() raised {in_words(error)}", error) from error

    def _ask(self, plugin: BindingPlugin, stage: str) -> object:
        try:
            answer: object = getattr(plugin, stage)(self.pod, self.node_name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of whatever kind: somebody else wrote it
            raise self._failed(plugin, stage, f"{stage}() raised {in_words(error)}", error) from error
        return answer

    async def _await(self, plugin: BindingPlugin, stage: str) -> object:
        given = self._active.policy.bind_timeout_seconds
        seconds = LONGEST_STAGE_SECONDS if given is None else given
        task = await finish_within(self._run(plugin, stage), self._clock, seconds)
        if task is None:
            raise self._failed(plugin, stage, f"{stage}() took longer than {seconds:g} s")
        if task.cancelled():
            raise self._failed(plugin, stage, f"{stage}() was cancelled")
        return task.result()

    async def _run(self, plugin: BindingPlugin, stage: str) -> object:
        try:
            answer: object = await getattr(plugin, stage)(self.pod, self.node_name)
        except (Exception, SystemExit) as error:
            raise self._failed(plugin, stage, f"{stage}() raised {in_words(error)}", error) from error
        return answer

    def _text(self, plugin: BindingPlugin, stage: str, refusal: object) -> str:
        if not isinstance(refusal, str) or not refusal:
            raise self._failed(plugin, stage, f"{stage}() gave {show(refusal)}, not None or a reason")
        return refusal

    def _failed(self, plugin: BindingPlugin, stage: str, problem: str, error: BaseException | None = None) -> Stopped:
        stopped = Stopped(f'running {TITLES[stage]} plugin "{plugin.name}": {problem}', error=True)
        if not self._is_over:  # else it was cut off, and may say what it likes
            self._note(plugin, problem, error or stopped)
        return stopped

    def _note(self, plugin: BindingPlugin, problem: str, error: BaseException) -> None:
        self._usage.failed(self._active, f"plugin {plugin.name}", problem)
        fields = about(self.pod, node=self.node_name, policy=self._active.policy.name)
        self._faults.note("asking", f"plugin {plugin.name} about Pod {self.pod.key}", error, **fields)


def _nowhere(reason: str) -> str:
    """kube-scheduler's words, for which the chosen node is all there is."""
    return f"0/1 nodes are available: 1 {reason}."


def _duration(seconds: float) -> str:
    """As Go prints it."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:g}m{rest:g}s" if minutes else f"{rest:g}s"
