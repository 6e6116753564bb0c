"""A job as a program's loop sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch import nn

from . import memory_short
from .binding_by_memory import BindingByMemory
from .channel import Message
from .errors import PacelineError
from .evaluation import Evaluate, measure
from .expected import Expected
from .first_batches import FirstBatches
from .frozen import Frozen
from .given_up import GivenUp
from .host_binding import HostBinding
from .inventory import Inventory
from .leaving import Leaving, behind_the_loop, end_program
from .loading import Drawn, Load
from .measures import finite, metrics_on, scalar, weight_of
from .memories import Memories
from .micro_batches import MicroBatches, cut
from .moving import Moves
from .optimizer_guard import OptimizerGuard
from .optimizer_state import write_first
from .reporting import reporter
from .seeding import seed_evaluation, seed_step
from .session import Session
from .small_batches import SmallBatches, behind_step
from .stage_forward import StageForward
from .stages import KINDS as STAGE_KINDS
from .stages import Stages
from .step_page import Words
from .turn import Turn
from .unsized import Unsized
from .write_guard import WriteGuard
from .write_watch import WriteWatch

if TYPE_CHECKING:
    from .cuts import Cuts, Loss
    from .team import Team


class Job(Unsized):
    """Iterate over it: each batch is leased to this worker alone. Call step() once for each batch.

    After step() the model has the weights of the next batch, or the job's last ones.
    """

    def __init__(
        self,
        session: Session,
        model: nn.Module,
        inventory: Inventory,
        memories: Memories,
        binding: BindingByMemory,
        make_loader: Callable[[], Any],
        evaluate: Evaluate | None,
        guard: OptimizerGuard,
        watch: WriteWatch,
        frozen: Frozen,
        device: torch.device,
        team: Team | None = None,
        loss: Loss | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        self.role = session.role
        self.name = session.name
        self.number = session.number
        self.devices = session.devices
        self.seed = session.seed
        self.epoch = 0  # the epoch of the batch in hand
        self.samples: tuple[int, ...] = ()  # the indices in the batch in hand
        self._session = session
        self._channel = session.channel
        self._model = model
        self._inventory = inventory
        self._memories = memories
        self._binding = binding
        self._evaluate = evaluate
        self._guard = guard
        self._watch = watch
        self._frozen = frozen
        self._device = device
        self._moves = Moves(device)
        self._team = team
        self._in_hand = False  # a batch that step() has not been called for
        self._first = FirstBatches(inventory, guard.has_scaler)
        guard.begin(model, self._first.zeroing, session.devices > 1 or team is not None)
        self._small = SmallBatches(session.settings.get("computed"))
        self._stepped = False  # step() was called for the last one
        self._over = self._in_step = False
        self._bound = False  # the model has had weights of the job
        self._has_last = False  # the model has the job's last weights
        self._turns = self._work()
        self._next: Turn | None = None  # the turn of the loop that step() has prepared
        self._micro: MicroBatches | None = None
        self._micro_batch: int | None = None
        self._words: Words | None = None  # the words of the step in hand
        self._data_end: int | None = None  # said by the step in hand: how many samples the run has in all
        self._finishes_later = False  # the step in hand, without this thread waiting for it
        self._drawn: int | None = None  # samples of the batch in hand, if a stream may have fewer than were leased
        self._leaving = Leaving()
        self._write_guard = WriteGuard(binding.shared_at, reporter.tell)
        self._write_guard.install()
        self._loader = make_loader() if self.role in ("worker", "follower") else None
        self._expected = Expected(self._loader, team)
        self._channel.while_waiting = self._look
        self._passing = None if cuts is None else StageForward(cuts.seams, 0, len(cuts.seams.blocks), device=device)
        self._seed = self._augment_seed = 0  # seeds of the micro-batch in hand, and of the step's samples
        self._given_up = GivenUp(0 if cuts is None or not session.recuts else len(cuts.units))
        self._stages: Stages | None = None
        if loss is not None and cuts is not None and self._loader is not None:
            self._stages = Stages(
                model, inventory, memories, loss, cuts, self._whole_batch, self._bind_weights, device, session.recuts
            )
        reporter.way_out = self._way_out

    # The program calls these.

    @property
    def is_first(self) -> bool:
        """Whether this process writes what one of them writes: w0, and at the end one of the workers left."""
        return self._session.is_first

    def __iter__(self) -> Iterator[Any]:
        return self._leaving.no_batches() if self._over else self._loop()

    def step(
        self, loss: Any, metrics: Mapping[str, Any] | None = None, *, weight: Any = None, skipped: bool = False
    ) -> None:
        """The gradient of the batch in hand is in the parameters' .grad, and this was the batch's mean loss.

        weight: how much this mean counts beside those of other batches, for example its number of tokens if the loss
        is a mean over tokens. Without it a batch counts as much as its samples. Give it for each batch.

        skipped=True: the gradient must not be used. The batch counts as trained all the same. If it comes in parts
        (micro_batch), one skipped part skips the whole batch.
        """
        with reporter.reported(), self._given_up.trying():
            if not self._in_hand:
                raise PacelineError(
                    "job.step() was called twice for one batch; call it once, behind the backward pass"
                    if self._stepped
                    else "job.step() was called before the first batch; call it in the loop over the job"
                )
            self._in_hand, self._stepped = False, True
            self._small.computed(len(self.samples) if self._drawn is None else self._drawn)
            assert self._micro is not None
            known = self._drawn if weight is None else weight_of(weight)
            later = self._device if self._finishes_later and known != 0 else None  # tensors there are read later
            self._micro.measured(scalar(loss, later), metrics_on(metrics, later), known, skipped)
            if known != 0 and not skipped:
                self._first.computed(weight is not None)
            self._micro.collect()
            if self._micro.is_last:
                self._finish(self._micro)
                # The program may use the weights before it asks for the next batch: an average, a measurement.
                self._in_step = True
                self._next = self._next_turn()
                self._in_step = False

    def block_seeds(self) -> contextlib.AbstractContextManager[object]:
        """Around the passes of a whole model: its blocks draw what they draw as stages of it."""
        return contextlib.nullcontext() if self._passing is None else self._passing.begin_with((), self._seed)

    def may_be_given_up(self) -> contextlib.AbstractContextManager[None]:
        """Around a part of a batch whose loop goes on with another one if this one has no memory."""
        return self._given_up.trying()

    def wait_for_end(self) -> None:
        """For a program that only describes its model."""
        while not self._over:
            self._serve(self._channel.read())
        self._channel.end_process()

    def is_over(self) -> bool:
        """For a program that does other things meanwhile."""
        while not self._over and self._channel.ready(0):
            self._serve(self._channel.read())
        return self._over

    def _way_out(self, error: BaseException) -> tuple[str, dict[str, int] | None]:
        samples, computing = len(self.samples) if self._in_hand else 0, getattr(self._stages, "computing", None)
        if memory_short.is_out_of_memory(error):
            return memory_short.way_out(error, samples, computing), None
        if self._next is not None:
            return behind_step(error), None
        if computing is not None and not self._in_hand:
            return self._small.said(computing.samples, error, computing.parts > 1)[0], None
        return self._small.said(samples, error, self._micro is not None and len(self._micro.parts) > 1)

    # The protocol.

    def _loop(self) -> Generator[Any, None, None]:
        reporter.watch()
        try:
            with reporter.reported():
                while (turn := self._take_turn()) is not None:
                    self.epoch, self.samples, self._seed = turn.epoch, turn.samples, turn.seed
                    seed_step(self._seed, self._device)
                    if turn.is_first:
                        self._binding.hand_out()
                    self._in_hand = True
                    self._first.start()
                    yield turn.take_batch()
                    if self._in_hand and not self._given_up:
                        raise PacelineError(
                            "the loop went on to the next batch without job.step(); call it once for each batch; "
                            + self._first.instead_of_accumulating()
                        )
                if not self._over:  # an exception has ended self._turns
                    self._leaving.went_on()
        except GeneratorExit:
            self._leaving.left_early()
            raise

    def _take_turn(self) -> Turn | None:
        """None: the job is over."""
        turn, self._next = self._next, None
        return self._next_turn() if turn is None or self._given_up else turn

    def _next_turn(self) -> Turn | None:
        while True:
            if self._given_up:
                self._leave_step()
            with self._given_up.trying():
                return next(self._turns, None)

    def _leave_step(self) -> None:
        self._turns.close()
        self._turns = self._work()
        self._micro, self._in_hand = None, False
        self._moves.forget()
        memory_short.set_free((entry.tensor for entry in self._inventory.entries), self._device)
        self._send(self._given_up.take_answer())

    def _work(self) -> Generator[Turn | None, None, None]:
        while not self._over:
            message = self._channel.read()
            if message is not None and message["type"] == "step":
                yield from self._iteration(message)
                continue
            if self._in_step and message is not None and message["type"] == "evaluate":
                yield None  # the program first does what follows its step
            self._serve(message)

    def _look(self) -> None:
        """While no message comes. The worker would wait for whatever has died here."""
        if self._loader is not None:
            self._loader.check()
        if self._finishes_later and self._device.type == "cuda":  # a device that failed writes no word
            torch.cuda.current_stream(self._device).query()

    def _serve(self, message: Message | None) -> None:
        """Everything but a step."""
        if message is None:
            # A probe needs the program no more. Otherwise its worker is gone, for example killed.
            message = {"type": "end", "failed": self.role != "probe", "why": "its worker is gone"}
        kind = message["type"]
        if kind == "layout":
            self._memories.lay_out(message)
            self._inventory.lay_out(self._memories)
        elif kind == "map":
            self._memories.map(message)
        elif kind == "unmap":
            self._memories.unmap(message)
            self._binding.forget()
        elif kind in ("initial", "optimizer_state"):
            write_first(self._inventory, self._memories, self._guard.optimizer, message)
            self._send({"type": "done"})
        elif kind == "expect":
            self._expected.take(message, self._micro_batch)
        elif kind == "evaluate":
            self._answer_evaluate(message)
        elif kind == "last":
            self._take_last(message)
        elif kind in STAGE_KINDS and self._stages is not None:
            if kind == "stage":
                self._micro_batch, self.epoch = message["micro_batch"], int(message.get("epoch", 0))
            answer = self._stages.serve(message)
            if kind == "finish":
                self._frozen.check(waits=True)
            if answer is not None:
                self._send(answer)
            if kind == "finish":
                self._frozen.stepped()
        elif kind == "end":
            self._end(message)

    def _iteration(self, step: Message) -> Generator[Turn, None, None]:
        if self._loader is None:
            raise PacelineError(f"Paceline sent a step to a program of role {self.role!r}")
        samples = tuple(int(index) for index in step["samples"])
        if self._team is not None:
            samples = self._team.share(step)
        epoch, seed = int(step.get("epoch", 0)), int(step["seed"])
        self._augment_seed = int(step["augment_seed"])
        self._micro_batch = step.get("micro_batch")
        self._micro = MicroBatches(self._inventory, cut(samples, self._micro_batch))
        # A process of a team may have no samples.
        self._given_up.micro_batch = len(self._micro.parts[0]) if self._micro.parts else 0
        self._data_end = None
        bound = False
        for micro, part in enumerate(self._micro.parts):
            self._micro.start(micro)
            batch = self._taken(self._loader.get(Load(part, self._augment_seed, epoch)))
            if self._drawn == 0:
                self._micro.nothing()
                continue
            batch = self._moves.move(batch)  # before the weights, which the device may have to wait for
            is_first = not bound
            if is_first:
                self._bind(step)
                self._micro.takes_gradients = isinstance(self._binding.now, HostBinding)
                bound = True
            turn = Turn(epoch, part, seed + micro, is_first, [batch])
            del batch
            yield turn
        if not bound:  # there is no sample: fewer than processes, say
            self._bind(step)
        if not bound or self._drawn == 0:
            self._finish(self._micro)

    def _whole_batch(self, load: Load) -> Any:
        assert self._loader is not None
        return self._taken(self._loader.get(load))

    def _taken(self, got: Any) -> Any:
        """The batch. A stream says how many samples are in it, and where the data end."""
        self._drawn = None
        if not isinstance(got, Drawn):
            return got
        self._drawn = got.samples if got.varies else None
        self._data_end = got.data_end or self._data_end
        return got.batch

    def _bind(self, step: Message) -> None:
        page = step.get("page")
        self._words = None if page is None else Words.of(page, self._memories.page(int(page["memory"])))
        if self._words is not None and self._words.rows:
            self._binding.bind_early(self._words)
        else:
            self._bind_weights(step)
        self._binding.before(step["gradients"])
        self._finishes_later = (
            self._words is not None
            and self._team is None
            and not self._guard.has_scaler
            and self._binding.can_finish_later()
        )
        if self._team is not None:
            self._team.spread_weights()
        self._watch.start()

    def _bind_weights(self, message: Message, wanted: set[int] | None = None, is_last: bool = False) -> None:
        """wanted: the entries that a stage computes with; None: all. is_last: they are the job's last weights."""
        if not self._bound:
            self._inventory.check_devices()
            if self.role == "evaluator" and self._session.run_folder:
                self._frozen.compare(self._session.run_folder)
            self._bound = True
        if is_last:
            self._binding.bind_last(message["weights"])
        else:
            self._binding.bind(message["weights"], message.get("gradients", ()), message.get("ahead"), wanted)

    def _finish(self, micro: MicroBatches) -> None:
        self._guard.check(self.epoch)
        if self._team is not None:
            micro.skipped = self._team.average(micro)
        overflowed = self._guard.overflowed()  # a scaler is updated in any case
        skipped = micro.skipped or overflowed
        if self._finishes_later and self._words is not None:
            micro.metrics = self._words.take(micro.metrics)
            known = self._words.places(micro.loss)
            self._binding.finish_later(self._words, micro.skipped)
        else:
            known = self._binding.finish(skipped=skipped)
        self._watch.check()
        self._frozen.check(waits=not self._finishes_later)
        loss = None if isinstance(micro.loss, torch.Tensor) else finite(micro.loss)
        said: Message = {"loss": loss, "metrics": micro.metrics, "skipped": skipped, **known}
        if micro.weight is not None:
            said["weight"] = micro.weight
        if self._data_end is not None:
            said["data_end"] = self._data_end
        # A smaller scale helps if a gradient is too large. It does not help if the loss is not a number.
        if overflowed and not micro.skipped and loss is not None:
            said["retry"] = True
        self._send({"type": "stepped", **said})
        self._given_up.micro_batch = 0
        self._frozen.stepped()

    def _answer_evaluate(self, message: Message) -> None:
        self._bind_weights(message)
        seed_evaluation(self.seed, self._device)
        measured = {} if self._evaluate is None else measure(self._evaluate, self._model)
        self._guard.check_evaluation()
        self._send({"type": "evaluated", "metrics": measured})

    def _take_last(self, message: Message) -> None:
        self._frozen.read_looks()
        self._bind_weights(message, is_last=True)
        if self._team is not None:
            self._team.share_last(message)
            self._team.spread_weights()
        self._memories.settle()
        self._has_last = True
        self._send({"type": "done"})

    def _end(self, message: Message) -> None:
        self._over = True
        if message.get("failed"):
            reporter.done = True
            self._channel.close()
        else:
            self._session.first = message.get("first")
            reporter.job_is_over(behind_the_loop(self.role, self._stepped))
        try:
            self._let_go(message)
        finally:
            if message.get("failed"):
                end_program(f"this program ends before the job is done: {message.get('why', '')}")

    def _let_go(self, message: Message) -> None:
        if self._loader is not None:
            self._loader.close()
        self._moves.forget()
        self._write_guard.remove()
        self._binding.release()
        self._frozen.finish(job_is_done=not message.get("failed"))
        self._guard.release()
        if self._team is not None:
            self._team.end(message)
        if self._loader is not None and not self._has_last and not message.get("failed"):
            self._leaving.say_that_weights_are_old()

    def _send(self, message: Message) -> None:
        if self._loader is not None and message["type"] in ("stepped", "finished"):
            message.update(self._loader.lengths())
        # Reading the next message shows whether the worker still listens.
        self._channel.write(message)
