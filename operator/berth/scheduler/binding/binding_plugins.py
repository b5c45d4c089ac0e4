"""Binding plugins of a policy for one pod: Reserve, Permit, PreBind, Bind and PostBind.

    reserve, permit            synchronous, in the scheduling cycle; a plugin that rejects makes the pod unschedulable
    wait                       until every plugin that returned Wait has allowed the pod, one rejects it, or time is up
    pre_bind                   one plugin after the other; a plugin that refuses sends the pod to backoff
    bind                       the first plugin that binds; if none does, the API server is called
    end                        once: PostBind of every plugin, or Unreserve in reverse order

If a plugin raises, returns an invalid answer or exceeds its time, the pod loses this node. The error is counted for the
policy; no other pod is affected. What a plugin raises in `end` is only counted: nothing depends on it any more.

What it does not do: assume pods, queue them, or report (`BindingCycle`).
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
    """The pod does not get the node; the message is for users.

    With a `rejecter` the pod is unschedulable until an event that this plugin listens to; without one it is tried again
    after its backoff. `error`: something failed; False: a plugin decided so.
    """

    def __init__(self, message: str, *, rejecter: BindingPlugin | None = None, error: bool = False) -> None:
        super().__init__(message)
        self.rejecter = rejecter
        self.error = error


class BindingPlugins:
    """Runs the binding plugins for one pod and its chosen node."""

    def __init__(
        self, pod: Pod, node_name: str, active: ActivePolicy, *, clock: Clock, usage: Usage, errors: ErrorLog
    ) -> None:
        self.pod = pod
        self.node_name = node_name
        self._active = active
        self._clock = clock
        self._usage = usage
        self._errors = errors
        self._plugins: tuple[BindingPlugin, ...] = ()
        self._deadlines: dict[str, tuple[float, float]] = {}  # of plugins that have to allow it: end and duration
        self._rejection: Stopped | None = None
        self._signal = asyncio.Event()
        self._is_over = False

    # --- reserve and permit ------------------------------------------------------------------------------------------

    def reserve(self) -> None:
        """Select the plugins that the pod concerns and run Reserve; raises Stopped."""
        self._plugins = tuple(plugin for plugin in self._active.stages if self._concerns(plugin))
        for plugin in self._plugins:
            refusal = self._ask(plugin, "reserve")
            if refusal is not None:
                raise Stopped(_no_node_message(self._text(plugin, "reserve", refusal)), rejecter=plugin)

    def permit(self) -> None:
        """Run Permit; raises Stopped. Afterwards `is_waiting` says whether the pod has to wait."""
        deadlines: dict[str, tuple[float, float]] = {}
        for plugin in self._plugins:
            answer = self._ask(plugin, "permit")
            if not isinstance(answer, Permit):
                raise self._failed(plugin, "permit", f"permit() gave {show(answer)}, not a Permit")
            if answer.verdict == "reject":
                raise Stopped(_no_node_message(answer.reason), rejecter=plugin)
            if answer.verdict == "wait":
                seconds = min(answer.seconds, LONGEST_WAIT_SECONDS)
                deadlines[plugin.name] = self._clock.now() + seconds, seconds
        self._deadlines = deadlines

    # --- waiting on Permit -------------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether a plugin has yet to allow the pod."""
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
        self._rejection = Stopped(_no_node_message(reason), rejecter=plugin)
        self._signal.set()
        return True

    async def wait(self) -> None:
        """Wait until all plugins have allowed the pod; raises Stopped."""
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
        """Whether a plugin implements PreBind."""
        return any(takes_part(type(plugin), "pre_bind") for plugin in self._plugins)

    @property
    def binders(self) -> tuple[str, ...]:
        """The names of the plugins that implement Bind."""
        return tuple(plugin.name for plugin in self._plugins if takes_part(type(plugin), "bind"))

    async def pre_bind(self) -> None:
        """Run PreBind; raises Stopped."""
        for plugin in self._plugins:
            if takes_part(type(plugin), "pre_bind"):
                refusal = await self._await(plugin, "pre_bind")
                if refusal is not None:
                    raise Stopped(self._text(plugin, "pre_bind", refusal))

    async def bind(self) -> bool:
        """Whether a plugin has bound the pod; raises OutcomeUnknown if a plugin failed."""
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
        """Run PostBind, or Unreserve if the pod does not get the node."""
        self._is_over = True
        stage = "post_bind" if bound else "unreserve"
        for plugin in self._plugins if bound else reversed(self._plugins):
            try:
                getattr(plugin, stage)(self.pod, self.node_name)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # of any kind: the plugin is foreign code
                self._note(plugin, f"{stage}() raised {in_words(error)}", error)

    # --- calls of plugins --------------------------------------------------------------------------------------------

    def _concerns(self, plugin: BindingPlugin) -> bool:
        try:
            return plugin.concerns(self.pod)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of any kind: the plugin is foreign code
            raise self._failed(plugin, "reserve", f"concerns() raised {in_words(error)}", error) from error

    def _ask(self, plugin: BindingPlugin, stage: str) -> object:
        try:
            answer: object = getattr(plugin, stage)(self.pod, self.node_name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of any kind: the plugin is foreign code
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
        if not self._is_over:  # else the plugin was cancelled, and its errors do not matter
            self._note(plugin, problem, error or stopped)
        return stopped

    def _note(self, plugin: BindingPlugin, problem: str, error: BaseException) -> None:
        self._usage.failed(self._active, f"plugin {plugin.name}", problem)
        fields = about(self.pod, node=self.node_name, policy=self._active.policy.name)
        self._errors.note("asking", f"plugin {plugin.name} about Pod {self.pod.key}", error, **fields)


def _no_node_message(reason: str) -> str:
    """kube-scheduler's message, which counts the chosen node only."""
    return f"0/1 nodes are available: 1 {reason}."


def _duration(seconds: float) -> str:
    """The duration as Go prints it."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:g}m{rest:g}s" if minutes else f"{rest:g}s"
