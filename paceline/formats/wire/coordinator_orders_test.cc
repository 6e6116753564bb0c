// Tests that an order has every field on the wire, and each value in its place.
#include "paceline/formats/wire/coordinator_orders.h"

#include <set>
#include <string>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string text_of(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  EXPECT_TRUE(printer.PrintToString(message, &text));
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

// Checks that all fields are set, also those of parts. Tensors, whose kinds exclude each other, have a test of their
// own, and so have leases.
void expect_full(const Message& message) {
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    const bool is_part = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const bool set = field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                                         : reflection.HasField(message, &field);
    EXPECT_TRUE(set) << field.full_name() << " is not set";
    if (!set || !is_part || field.message_type() == Lease::descriptor() ||
        field.message_type() == Layout::descriptor())
      continue;
    expect_full(field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, 0)
                                    : reflection.GetMessage(message, &field));
  }
}

class CoordinatorOrders : public testing::Test {
 protected:
  // The text of the order on the wire.
  template <class Order>
  std::string sent(const Order& order) {
    const auto message = to_wire(order);
    const auto& kinds = *message.GetDescriptor()->FindOneofByName("what");
    const FieldDescriptor* const kind = message.GetReflection()->GetOneofFieldDescriptor(message, &kinds);
    if (kind == nullptr) return "nothing";
    expect_full(message.GetReflection()->GetMessage(message, kind));
    seen_.insert(kind->full_name());
    return text_of(message);
  }
  std::string worker(coordinator::WorkerOrder order) { return sent(order); }
  std::string server(coordinator::ServerOrder order) { return sent(order); }
  std::string evaluator(coordinator::EvaluatorOrder order) { return sent(order); }

  template <class Order>
  void expect_all_seen() const {
    const auto& kinds = *Order::descriptor()->FindOneofByName("what");
    for (int i = 0; i < kinds.field_count(); ++i)
      EXPECT_TRUE(seen_.contains(kinds.field(i)->full_name()))
          << kinds.field(i)->full_name() << " has no test";
  }

  static paceline::Layout layout() {
    paceline::Layout layout;
    layout.add("a", TensorKind::kParameter, {8});
    return layout;
  }
  static coordinator::Disconnect disconnect() {
    return {.refused = true,
            .why = "why",
            .again = true,
            .failed = true,
            .reason = coordinator::Disconnect::Reason::kHostGivenUp,
            .stopped = true,
            .interrupted = true,
            .first = true};
  }
  static coordinator::Boards boards() { return {{{"path", layout(), "card", "socket", "bell"}}, 3}; }
  static coordinator::StageWay way(int turn) {
    return {turn, "path", coordinator::StageLink{"name", "address", "send", "receive", "to", "carries"}};
  }

 private:
  std::set<std::string> seen_;
};

constexpr char kDisconnect[] =
    "disconnect { refused: true why: \"why\" again: true failed: true reason: HOST_GIVEN_UP stopped: true "
    "interrupted: true first: true }";
constexpr char kWelcome[] = "welcome { job_toml: \"job\" started: true resumed: true run: \"job-7\" }";
constexpr char kBoards[] =
    "boards { boards { path: \"path\" part { tensors { name: \"a\" shape: 8 } } card: \"card\" socket: "
    "\"socket\" bell: \"bell\" } reader: 3 }";

TEST_F(CoordinatorOrders, ToWorkersHaveEveryField) {
  EXPECT_EQ(worker(coordinator::Welcome{"job", true, true, "job-7"}), kWelcome);
  EXPECT_EQ(worker(boards()), kBoards);
  EXPECT_EQ(worker(disconnect()), kDisconnect);
  EXPECT_EQ(worker(coordinator::Dissolve{ReplicaId(1)}), "dissolve { replica: 1 }");
  EXPECT_EQ(worker(coordinator::TakeLast{Version(1)}), "take_last { version: 1 }");
  control::Release release{.replica = ReplicaId(1),
                           .clock = Clock(2),
                           .version = Version(3),
                           .lease = {4, 5, 9},
                           .why = {},
                           .learning_rate = 0.5,
                           .staleness = 1.5,
                           .fraction = 0.25,
                           .steps = 6,
                           .ahead = {{4, 9, 13}}};
  EXPECT_EQ(worker(coordinator::BeginIteration{release, Time{} + Duration(7)}),
            "release { clock: 2 version: 3 lease { epoch: 4 begin: 5 end: 9 } at_ns: 7 learning_rate: 0.5 "
            "staleness: 1.5 fraction: 0.25 steps: 6 ahead { epoch: 4 begin: 9 end: 13 } }");
  coordinator::Reduce reduce{.version = Version(1),
                             .rank = 2,
                             .members = {{ReplicaId(3), Clock(4), 0.5, "path"}},
                             .left = {ReplicaId(5)}};
  EXPECT_EQ(worker(reduce),
            "reduce { version: 1 rank: 2 members { replica: 3 clock: 4 weight: 0.5 gradient_path: \"path\" } "
            "left: 5 }");
  coordinator::Role role{.replica = ReplicaId(1),
                         .stage = 2,
                         .cuts = {3},
                         .micro_batch = 4,
                         .gradient_path = "gradient",
                         .turn = 5,
                         .widths = {6},
                         .previous = {way(7)},
                         .next = {way(8)},
                         .home = way(9),
                         .gradients = {way(10)}};
  const std::string rest =
      " path: \"path\" link { name: \"name\" address: \"address\" send_key: \"send\" receive_key: "
      "\"receive\" "
      "to: \"to\" carries: \"carries\" } }";
  EXPECT_EQ(worker(role),
            "role { replica: 1 stage: 2 cuts: 3 micro_batch: 4 gradient_path: \"gradient\" turn: 5 widths: 6 "
            "previous { turn: 7" +
                rest + " next { turn: 8" + rest + " home { turn: 9" + rest + " gradients { turn: 10" + rest +
                " }");
  expect_all_seen<WorkerOrder>();
}

TEST_F(CoordinatorOrders, ToServersHaveEveryField) {
  EXPECT_EQ(server(disconnect()), kDisconnect);
  coordinator::ServerStart start{.job_toml = "job",
                                 .shard = 1,
                                 .shard_count = 2,
                                 .part = layout(),
                                 .part_offset = 3,
                                 .whole_floats = 4,
                                 .readers = 5,
                                 .version = Version(6),
                                 .weights_path = "weights",
                                 .checkpoint_dir = "dir",
                                 .announce = true,
                                 .hosts = {{"exchange", layout(), "send", "receive"}},
                                 .mark_file = "file",
                                 .mark_text = "text",
                                 .copies = 7,
                                 .evaluator_host = HostPlace(8),
                                 .attempt = "attempt",
                                 .whole = layout(),
                                 .by_call = true,
                                 .checkpoint_files = {"one"},
                                 .first_passed_on = true,
                                 .take_up = true,
                                 .card = "card",
                                 .card_holders = 9};
  const std::string tensors = "{ tensors { name: \"a\" shape: 8 } }";
  EXPECT_EQ(
      server(start),
      "start { job_toml: \"job\" shard: 1 shard_count: 2 part " + tensors +
          " part_offset: 3 whole_floats: 4 readers: 5 version: 6 weights_path: \"weights\" checkpoint_dir: "
          "\"dir\" announce: true hosts { exchange: \"exchange\" part " +
          tensors +
          " send_key: \"send\" receive_key: \"receive\" } mark_file: \"file\" mark_text: \"text\" copies: 7 "
          "evaluator_host: 8 attempt: \"attempt\" whole " +
          tensors +
          " by_call: true checkpoint_files: \"one\" first_passed_on: true card: \"card\" take_up: true "
          "card_holders: 9 }");
  EXPECT_EQ(server(coordinator::MapGradient{ReplicaId(1), "path", HostPlace(2), "card"}),
            "map_gradient { replica: 1 path: \"path\" host: 2 card: \"card\" }");
  EXPECT_EQ(server(coordinator::UnmapGradient{ReplicaId(1)}), "unmap_gradient { replica: 1 }");
  EXPECT_EQ(server(coordinator::ReleaseReader{1}), "release_reader { reader: 1 }");
  coordinator::Apply apply{.version = Version(1),
                           .members = {{ReplicaId(2), Clock(3), 0.5, 0.25, true, EarlyNumber(4)}},
                           .learning_rate = 0.125,
                           .fraction = 0.75,
                           .of_differences = true,
                           .group = true,
                           .state = "state",
                           .elapsed = Duration(5)};
  const std::string commit =
      "{ version: 1 members { replica: 2 clock: 3 weight: 0.5 share: 0.25 waits: true early: 4 } "
      "learning_rate: 0.125 fraction: 0.75 of_differences: true group: true state: \"state\" elapsed_ns: 5 }";
  EXPECT_EQ(server(apply), "apply " + commit);
  EXPECT_EQ(server(coordinator::Expect{apply}), "expect { commit " + commit + " }");
  EXPECT_EQ(server(coordinator::Revoke{Version(1)}), "revoke { version: 1 }");
  EXPECT_EQ(server(coordinator::SendEarly{ReplicaId(1), Clock(2), EarlyNumber(3)}),
            "send_early { replica: 1 clock: 2 number: 3 }");
  EXPECT_EQ(server(coordinator::Want{HostPlace(1), Version(2)}), "want { host: 1 version: 2 }");
  EXPECT_EQ(server(coordinator::Keep{Version(1), true, true}),
            "keep { version: 1 again: true in_host: true }");
  EXPECT_EQ(server(coordinator::Drop{Version(1), true}), "drop { version: 1 checkpoint: true }");
  EXPECT_EQ(server(coordinator::WriteCheckpoint{Version(1), "dir"}),
            "write_checkpoint { version: 1 dir: \"dir\" }");
  EXPECT_EQ(server(coordinator::Publish{Version(1)}), "publish { version: 1 }");
  EXPECT_EQ(server(coordinator::WriteCopy{Version(1), ShardId(2), "dir", true}),
            "write_copy { version: 1 shard: 2 dir: \"dir\" by_call: true }");
  expect_all_seen<ServerOrder>();
}

TEST_F(CoordinatorOrders, ToTheEvaluatorHaveEveryField) {
  EXPECT_EQ(evaluator(coordinator::Welcome{"job", true, true, "job-7"}), kWelcome);
  EXPECT_EQ(evaluator(boards()), kBoards);
  EXPECT_EQ(evaluator(coordinator::EvaluateVersion{Version(1)}), "evaluate { version: 1 }");
  EXPECT_EQ(evaluator(disconnect()), kDisconnect);
  expect_all_seen<EvaluatorOrder>();
}

TEST_F(CoordinatorOrders, SayWhyAProcessIsRefused) {
  using Reason = coordinator::Disconnect::Reason;
  const auto sent_as = [](Reason reason) {
    return to_wire(coordinator::WorkerOrder(coordinator::Disconnect{.reason = reason})).disconnect().reason();
  };
  EXPECT_EQ(sent_as(Reason::kNone), Disconnect::NONE);
  EXPECT_EQ(sent_as(Reason::kPlaceTaken), Disconnect::PLACE_TAKEN);
  EXPECT_EQ(sent_as(Reason::kHostGivenUp), Disconnect::HOST_GIVEN_UP);
}

}  // namespace
}  // namespace paceline::wire
