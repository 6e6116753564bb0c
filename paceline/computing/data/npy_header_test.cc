#include "paceline/computing/data/npy_header.h"

#include <gtest/gtest.h>

#include "paceline/computing/data/testing/npy_header_text.h"

namespace paceline::data {
namespace {

// A header around `dictionary`, as version `major` has it.
std::string around(const std::string& dictionary, int major = 1) {
  std::string text("\x93NUMPY");
  text += static_cast<char>(major);
  text += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) text += static_cast<char>(dictionary.size() >> 8 * i & 0xff);
  return text + dictionary;
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  const auto header = parse_npy_header(text);
  ASSERT_FALSE(header.ok()) << text;
  const std::string message(header.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

constexpr char kPlain[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (7, 1, 3), }\n";

TEST(NpyHeader, ReadsAllVersions) {
  for (int major = 1; major <= 3; ++major) {
    const auto header = parse_npy_header(around(kPlain, major));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->type, NpyType::kFloat32);
    EXPECT_EQ(header->shape, (std::vector<std::int64_t>{7, 1, 3}));
    EXPECT_EQ(header->values, 21);
    EXPECT_EQ(header->data_begin, static_cast<std::int64_t>(around(kPlain, major).size()));
  }
}

TEST(NpyHeader, ReadsWhatOthersWrite) {
  // Another order of keys, other quotes and spaces, no comma at the end.
  const auto header =
      parse_npy_header(around("{ \"shape\":(5,),\"descr\" : \"|u1\",\t\"fortran_order\":True}   \n"));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, NpyType::kUint8);
  EXPECT_EQ(header->shape, (std::vector<std::int64_t>{5}));
}

TEST(NpyHeader, ReadsAScalarAndNoValues) {
  const auto scalar = parse_npy_header(around("{'descr': '<i8', 'fortran_order': False, 'shape': ()}"));
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_EQ(scalar->values, 1);
  const auto none = parse_npy_header(around(
      "{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807, 0)}"));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->values, 0);
}

TEST(NpyHeader, ReadsWhatNumPyWrites) {
  for (const NpyType type :
       {NpyType::kFloat32, NpyType::kFloat64, NpyType::kUint8, NpyType::kUint16, NpyType::kUint32,
        NpyType::kUint64, NpyType::kInt8, NpyType::kInt16, NpyType::kInt32, NpyType::kInt64}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {5}, {5, 4}, {60000, 3, 224, 224}}) {
      const std::string text = npy_header_text(type, shape);
      EXPECT_EQ(text.size() % 64, 0u);
      const auto header = parse_npy_header(text);
      ASSERT_TRUE(header.ok()) << header.status();
      EXPECT_EQ(header->type, type);
      EXPECT_EQ(header->shape, shape);
    }
  }
}

TEST(NpyHeader, RefusesWhatIsNoNpy) {
  expect_refused("", {"is not an NPY file", "numpy.save"});
  expect_refused("PK\3\4 an npz", {"is not an NPY file"});
  std::string later = around(kPlain);
  later[6] = 4;
  expect_refused(later, {"version 4.0"});
}

TEST(NpyHeader, RefusesEveryTruncation) {
  for (int major = 1; major <= 3; ++major) {
    const std::string whole = around(kPlain, major);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_FALSE(parse_npy_header(std::string_view(whole).substr(0, size)).ok()) << size;
  }
}

TEST(NpyHeader, DoesNotBelieveAHugeLength) {
  std::string huge = around(kPlain, 2);
  huge.replace(8, 4, "\xff\xff\xff\xff");
  expect_refused(huge, {"4294967295 bytes"});
}

TEST(NpyHeader, RefusesShapesThatNoFileHolds) {
  expect_refused(around("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
                 {"more values than any file"});
  expect_refused(around("{'descr': '<f8', 'fortran_order': False, 'shape': (576460752303423489,)}"),
                 {"more values than any file"});
  expect_refused(around("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
                 {"whole numbers"});
  expect_refused(around("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2)}"), {"whole numbers"});
  std::string many = "{'descr': '<f8', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 33; ++i) many += "1,";
  expect_refused(around(many + ")}"), {"more than 32 dimensions"});
}

TEST(NpyHeader, RefusesOrdersAndTypesWithTheFix) {
  expect_refused(around("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}"),
                 {"Fortran order", "numpy.ascontiguousarray"});
  expect_refused(around("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}"), {"'>f4'", "astype"});
  expect_refused(around("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}"), {"'|O'"});
  expect_refused(around("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), {"each field"});
}

TEST(NpyHeader, RefusesDictionariesThatAreNone) {
  for (const char* wrong : {"", "[]", "{", "{'descr'", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4'}",
                            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
                            "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
                            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,4}",
                            "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
                            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
                            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} more",
                            "{'descr': '<f\n4', 'fortran_order': False, 'shape': (3,)}"}) {
    expect_refused(around(wrong), {"damaged", "save the array again"});
  }
}

}  // namespace
}  // namespace paceline::data
