// Tests that no field of a message is lost on its way to the coordinator's own type: each makes a difference there.
#include "paceline/formats/wire/coordinator_messages.h"

#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool of_oneof(const FieldDescriptor& field) { return field.real_containing_oneof() != nullptr; }

// Gives the message all its parts, and one element to each list of parts; of those that exclude each other none.
void grow(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map() || of_oneof(field)) continue;
    grow(field.is_repeated() ? *reflection.AddMessage(&message, &field)
                             : *reflection.MutableMessage(&message, &field));
  }
}

// Changes a field that has no parts. Lists and maps get an element.
void change(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? reflection.AddInt32(&message, &field, 7) : reflection.SetInt32(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? reflection.AddInt64(&message, &field, 7) : reflection.SetInt64(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? reflection.AddUInt32(&message, &field, 7) : reflection.SetUInt32(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, true);
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? reflection.AddString(&message, &field, "x") : reflection.SetString(&message, &field, "x");
    case FieldDescriptor::CPPTYPE_MESSAGE:
      reflection.AddMessage(&message, &field);
      return;
    default:
      FAIL() << field.full_name() << " is of a type that this test does not know";
  }
}

using Visit = std::function<void(const std::string& field)>;

// Changes each field below `message` in turn, calls `visit`, and puts it back.
void change_each(Message& message, const Visit& visit) {
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (of_oneof(field) && !reflection.HasField(message, &field)) continue;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map()) {
      change_each(field.is_repeated() ? *reflection.MutableRepeatedMessage(&message, &field, 0)
                                      : *reflection.MutableMessage(&message, &field),
                  visit);
      continue;
    }
    const std::unique_ptr<Message> before(message.New());
    before->CopyFrom(message);
    change(message, field);
    visit(field.full_name());
    message.CopyFrom(*before);
  }
}

// An order of the data without a digest makes no sense.
void make_readable(WorkerMessage& message) {
  if (message.has_attached()) message.mutable_attached()->mutable_data_order(0)->set_digest("digest");
}
template <class Other>
void make_readable(Other&) {}

// Checks every kind of a message. Returns how many fields it checked.
template <class Root>
int check_fields() {
  int checked = 0;
  const auto& kinds = *Root::descriptor()->FindOneofByName("what");
  for (int i = 0; i < kinds.field_count(); ++i) {
    Root root;
    grow(root);
    grow(*root.GetReflection()->MutableMessage(&root, kinds.field(i)));
    make_readable(root);
    const auto before = from_wire(root);
    EXPECT_FALSE(before == from_wire(Root())) << kinds.field(i)->name() << " is not read";
    change_each(root, [&](const std::string& field) {
      EXPECT_FALSE(from_wire(root) == before) << field << " is lost";
      ++checked;
    });
    EXPECT_TRUE(from_wire(root) == before);
  }
  return checked;
}

TEST(CoordinatorMessages, KeepEveryFieldOfWorkers) { EXPECT_GT(check_fields<WorkerMessage>(), 45); }
TEST(CoordinatorMessages, KeepEveryFieldOfServers) { EXPECT_GT(check_fields<ServerMessage>(), 45); }
TEST(CoordinatorMessages, KeepEveryFieldOfEvaluators) { EXPECT_GT(check_fields<EvaluatorMessage>(), 10); }

TEST(CoordinatorMessages, HaveEachNumberInItsPlace) {
  WorkerMessage message;
  WorkerReady& ready = *message.mutable_ready();
  ready.set_clock(1);
  ready.set_base(2);
  ready.set_compute_ns(3);
  ready.set_worked_ns(4);
  ready.set_loss(5);
  ready.set_norm(6);
  ready.set_loading_ns(7);
  ready.set_pulling_ns(8);
  ready.set_weight(9);
  ready.set_data_end(10);
  ready.set_replica(11);
  const auto read = std::get<coordinator::WorkerReady>(from_wire(message));
  EXPECT_EQ(read, (coordinator::WorkerReady{.replica = ReplicaId(11),
                                            .clock = Clock(1),
                                            .base = Version(2),
                                            .compute = Duration(3),
                                            .worked = Duration(4),
                                            .loss = 5,
                                            .norm = 6,
                                            .loading = Duration(7),
                                            .pulling = Duration(8),
                                            .weight = 9,
                                            .data_end = 10}));
}

TEST(CoordinatorMessages, WithAModelThatCannotBeAreUnreadable) {
  WorkerMessage message;
  message.mutable_attached();
  const auto no_model = std::get<coordinator::Unreadable>(from_wire(message));
  EXPECT_EQ(no_model.why.message(), "a model of no tensors");
  message.mutable_attached()->mutable_layout()->add_tensors()->set_name("a");
  message.mutable_attached()->add_data_order()->set_from(3);
  EXPECT_TRUE(std::holds_alternative<coordinator::Unreadable>(from_wire(message)));
}

}  // namespace
}  // namespace paceline::wire
