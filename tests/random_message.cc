#include "tests/random_message.h"

#include <limits>
#include <string>

namespace paceline::tests {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <class Number>
Number number(Rng& rng) {
  using Limits = std::numeric_limits<Number>;
  constexpr Number kOften[] = {0, 1, 2, 7, Limits::max(), Limits::lowest(), static_cast<Number>(-1)};
  const auto which = rng.below(std::size(kOften) + 2);
  return which < std::size(kOften) ? kOften[which]
                                   : static_cast<Number>(rng.below(which == 7 ? 100 : 1u << 31));
}

std::string text(Rng& rng) {
  constexpr const char* kOften[] = {"", "w0", "w1", "bsp", "/dev/shm/x", "../../job.toml", "\n\x1b[2J", "{}"};
  const auto which = rng.below(std::size(kOften) + 1);
  if (which < std::size(kOften)) return kOften[which];
  return std::string(rng.below(5000), static_cast<char>('a' + rng.below(26)));
}

void set(Message& message, const FieldDescriptor& field, Rng& rng, int depth) {
  const Reflection& with = *message.GetReflection();
  const bool add = field.is_repeated();
  switch (field.cpp_type()) {
#define PACELINE_SET(Type, Value)                                                          \
  add ? with.Add##Type(&message, &field, Value) : with.Set##Type(&message, &field, Value); \
  break
    case FieldDescriptor::CPPTYPE_INT32:
      PACELINE_SET(Int32, number<std::int32_t>(rng));
    case FieldDescriptor::CPPTYPE_INT64:
      PACELINE_SET(Int64, number<std::int64_t>(rng));
    case FieldDescriptor::CPPTYPE_UINT32:
      PACELINE_SET(UInt32, number<std::uint32_t>(rng));
    case FieldDescriptor::CPPTYPE_UINT64:
      PACELINE_SET(UInt64, number<std::uint64_t>(rng));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      PACELINE_SET(Double, number<double>(rng));
    case FieldDescriptor::CPPTYPE_FLOAT:
      PACELINE_SET(Float, number<float>(rng));
    case FieldDescriptor::CPPTYPE_BOOL:
      PACELINE_SET(Bool, rng.below(2) == 1);
    case FieldDescriptor::CPPTYPE_ENUM:
      PACELINE_SET(EnumValue, number<std::int32_t>(rng));
    case FieldDescriptor::CPPTYPE_STRING:
      PACELINE_SET(String, text(rng));
#undef PACELINE_SET
    case FieldDescriptor::CPPTYPE_MESSAGE:
      Message* const inner = add ? with.AddMessage(&message, &field) : with.MutableMessage(&message, &field);
      if (depth > 1) fill_at_random(*inner, rng, depth - 1);
      break;
  }
}

}  // namespace

void fill_at_random(Message& message, Rng& rng, int depth) {
  const auto& fields = *message.GetDescriptor();
  for (int i = 0; i < fields.real_oneof_decl_count(); ++i) {
    const auto& choice = *fields.oneof_decl(i);
    const std::uint64_t which = rng.below(static_cast<std::uint64_t>(choice.field_count()) + 1);
    if (which > 0) set(message, *choice.field(static_cast<int>(which) - 1), rng, depth);
  }
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i)->real_containing_oneof() != nullptr) continue;
    const std::uint64_t times = fields.field(i)->is_repeated() ? rng.below(4) : rng.below(2);
    for (std::uint64_t k = 0; k < times; ++k) set(message, *fields.field(i), rng, depth);
  }
}

}  // namespace paceline::tests
