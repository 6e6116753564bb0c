#include "paceline/records/store/safetensors.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/records/store/crc32.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/safetensors_header.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

using ::testing::HasSubstr;

// The bits of all tensors: equality of values would not cover NaN.
std::string bits(const SafetensorsFile& file) {
  std::string all;
  for (const Tensor& tensor : file.tensors) {
    all += tensor.name + ":";
    for (const auto extent : tensor.shape) all += fmt::format("{},", extent);
    all.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size() * sizeof(float));
  }
  for (const auto& [key, value] : file.metadata) all += key + "=" + value + ";";
  return all;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  // Writes a matrix, a scalar, an empty tensor and a vector.
  absl::Status write_sample() {
    const std::vector<TensorView> tensors = {{"m\"é\n", {2, 3}, matrix_.data()},
                                             {"scalar", {}, matrix_.data() + 1},
                                             {"empty", {4, 0, 7}, nullptr},
                                             {"v", {3}, matrix_.data() + 3}};
    return write_safetensors(path_, tensors, {{"fractions", "0.1"}});
  }
  absl::StatusOr<SafetensorsFile> read_bytes(const std::string& bytes) {
    put_bytes(path_, bytes);
    return read_safetensors(path_);
  }
  absl::StatusOr<SafetensorsFile> read_crafted(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    return read_bytes(bytes + header + std::string(data_bytes, '\0'));
  }

  const TestDirectory directory_;
  const std::filesystem::path path_ = directory_ / "file.safetensors";
  const std::vector<float> matrix_ = {1.5f, -0.0f,  std::numeric_limits<float>::quiet_NaN(),
                                      4,    1e-45f, INFINITY};
};

// With the checksums of the next format, which a flipped bit does not give.
TEST_F(SafetensorsTest, OfAnotherVersionIsNotDamaged) {
  ASSERT_TRUE(write_sample().ok());
  const std::string whole = *read_file(path_, 1 << 20);
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  const std::string data = whole.substr(sizeof length + length);
  SafetensorsHeader header = *parse_header(whole.substr(sizeof length, length));
  header.metadata["paceline_format"] = "2";
  for (const bool right : {true, false}) {
    header.metadata.erase("paceline_crc32");
    const std::string without = *to_text(header);
    const auto crc = crc32_after(data.data(), data.size(), crc32_after(without.data(), without.size(), 0));
    header.metadata["paceline_crc32"] = fmt::format("{:08x}", right ? crc : crc + 1);
    const std::string text = *to_text(header);
    length = text.size();
    const absl::Status status =
        read_bytes(std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data).status();
    EXPECT_EQ(absl::IsFailedPrecondition(status), right) << status;
    EXPECT_EQ(absl::IsDataLoss(status), !right) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("file.safetensors: "));
    EXPECT_EQ(check_safetensors(path_), status);
  }
}

TEST_F(SafetensorsTest, ReadsWhatItWrote) {
  ASSERT_TRUE(write_sample().ok());
  const auto file = read_safetensors(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors.size(), 4u);
  EXPECT_EQ(file->tensors[0].name, "m\"é\n");
  EXPECT_EQ(file->tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file->tensors[0].data.data(), matrix_.data(), 6 * sizeof(float)), 0);
  EXPECT_EQ(file->tensors[1].data.size(), 1u);
  EXPECT_EQ(file->metadata, (std::map<std::string, std::string>{{"fractions", "0.1"}}));
}

TEST_F(SafetensorsTest, AFileOfNoTensorsIsOne) {
  ASSERT_TRUE(write_safetensors(path_, {}, {}).ok());
  const auto file = read_safetensors(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors.empty() && file->metadata.empty());
}

TEST_F(SafetensorsTest, TheDataIsAligned) {
  ASSERT_TRUE(write_sample().ok());
  std::uint64_t length = 0;
  std::memcpy(&length, read_file(path_, 10000)->data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
}

TEST_F(SafetensorsTest, ATakenOrUnwritableNameIsRefused) {
  const float one = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(write_safetensors(path_, {{{"a", {1}, &one}, {"a", {1}, &one}}}, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(write_safetensors(path_, {{{"__metadata__", {1}, &one}}}, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(write_safetensors(path_, {{{"\xff", {1}, &one}}}, {})));
  EXPECT_EQ(directory_.count(), 0);
}

TEST_F(SafetensorsTest, EveryTruncationIsAnError) {
  ASSERT_TRUE(write_sample().ok());
  const std::string whole = *read_file(path_, 10000);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = read_bytes(whole.substr(0, size));
    ASSERT_TRUE(absl::IsDataLoss(file.status())) << size << ": " << file.status();
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("truncated: "));
    EXPECT_TRUE(absl::IsDataLoss(check_safetensors(path_))) << size;
  }
  EXPECT_FALSE(read_bytes(whole + "x").ok());
}

TEST_F(SafetensorsTest, AChangedByteIsAnErrorOrChangesNothing) {
  ASSERT_TRUE(write_sample().ok());
  const std::string whole = *read_file(path_, 10000);
  const std::string expected = bits(*read_bytes(whole));
  int harmless = 0;
  constexpr int kStep = effort::kSanitized ? 17 : 1;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (int flip = 1; flip < 256; flip += kStep) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      const auto file = read_bytes(bytes);
      ASSERT_EQ(check_safetensors(path_), file.status()) << "byte " << i << " flipped by " << flip;
      if (!file.ok()) {
        ASSERT_EQ(file.status().message().find('\n'), std::string::npos) << file.status();
        continue;
      }
      ++harmless;
      ASSERT_EQ(bits(*file), expected) << "byte " << i << " flipped by " << flip;
    }
  }
  // Spaces at the end of the header may become other blanks.
  EXPECT_LE(harmless, 8 * 3);
}

TEST_F(SafetensorsTest, AChecksumThatDoesNotFitSaysSo) {
  ASSERT_TRUE(write_sample().ok());
  std::string bytes = *read_file(path_, 10000);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_THAT(std::string(read_bytes(bytes).status().message()), HasSubstr("damaged (checksum "));
}

TEST_F(SafetensorsTest, FilesOfOtherProgramsAreRead) {
  const auto file = read_crafted(
      R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"a":{"data_offsets":[0,8],"dtype":"F32","shape":[2,1]},)"
      R"("__metadata__":{"format":"pt"}}   )",
      12);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors[0].name, "a");
  EXPECT_EQ(file->tensors[1].name, "b");
  EXPECT_EQ(file->metadata.at("format"), "pt");
}

TEST_F(SafetensorsTest, CraftedLengthsAreErrors) {
  for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{100'000'000}, std::uint64_t{100'000'001},
                                     std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    EXPECT_TRUE(absl::IsDataLoss(read_bytes(bytes + "{}").status())) << length;
  }
}

TEST_F(SafetensorsTest, CraftedHeadersAreErrors) {
  const auto tensor = [](const char* shape, const char* offsets) {
    return fmt::format(R"({{"a":{{"dtype":"F32","shape":{},"data_offsets":{}}}}})", shape, offsets);
  };
  ASSERT_TRUE(read_crafted(tensor("[2]", "[0,8]"), 8).ok());
  for (const std::string& header : {
           tensor("[2]", "[0,4]"),
           tensor("[2]", "[8,0]"),
           tensor("[2]", "[4,12]"),
           tensor("[2]", "[0]"),
           tensor("[2]", "[0,4,8]"),
           tensor("[2]", "[0,8.0]"),
           tensor("[2]", "\"0,8\""),
           tensor("[-2]", "[0,8]"),
           tensor("[2]", "[-8,0]"),
           tensor("[2]", "[18446744073709551608,8]"),
           tensor("[2]", "[18446744073709551608,18446744073709551615]"),
           tensor("[4611686018427387904]", "[0,8]"),  // times 4 is 0 in 64 bits
           tensor("[4611686018427387906]", "[0,8]"),  // times 4 is 8 in 64 bits
           tensor("[4294967296,4294967296]", "[0,0]"),
           tensor("[2305843009213693951]", "[0,9223372036854775804]"),
           tensor("[0,9223372036854775807,9223372036854775807]", "[0,8]"),
           tensor("[[2]]", "[0,8]"),
           tensor("[[[2]]]", "[0,8]"),
           tensor("2", "[0,8]"),
           tensor("null", "[0,8]"),
           std::string(R"({"a":{"dtype":"F32","shape":[2]}})"),
           std::string(R"({"a":{"shape":[2],"data_offsets":[0,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})"),
           std::string(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
           std::string(R"({"a":5})"),
           std::string(R"({"a":[]})"),
           std::string(R"({"__metadata__":{"a":1}})"),
           std::string(R"({"__metadata__":"a"})"),
           std::string("[]"),
           std::string("{}"),
           std::string("null"),
           std::string("        "),
           std::string(" {}"),
           std::string("{}x"),
           std::string(100, '['),
           std::string(""),
       }) {
    const auto file = read_crafted(header, 8);
    EXPECT_TRUE(absl::IsDataLoss(file.status())) << header << ": " << file.status();
  }
}

TEST_F(SafetensorsTest, AnUnknownTypeIsNamed) {
  for (const char* type : {"\"C64\"", "\"float32\"", "\"\"", "4", "null", "[\"F32\"]"}) {
    const auto file =
        read_crafted(fmt::format(R"({{"ids\n":{{"dtype":{},"shape":[1],"data_offsets":[0,8]}}}})", type), 8);
    EXPECT_TRUE(absl::IsUnimplemented(file.status())) << type;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("tensor 'ids?' has an unknown dtype"));
  }
}

TEST_F(SafetensorsTest, EveryTypeComesBackByteByByte) {
  std::vector<float> memory(4);
  std::memcpy(memory.data(), "\x01\x00\xa0\x7f\xff\x80\x7f\x00\x07\x01\x02\x03\x04\x05\x06\x09", 16);
  for (const ps::Dtype type : {ps::Dtype::kFloat32, ps::Dtype::kFloat64, ps::Dtype::kFloat16,
                               ps::Dtype::kBfloat16, ps::Dtype::kInt64, ps::Dtype::kInt32, ps::Dtype::kInt16,
                               ps::Dtype::kInt8, ps::Dtype::kUint8, ps::Dtype::kBool}) {
    const std::int64_t width = ps::bytes_of(type);
    for (std::int64_t elements = 0; elements * width <= 16; ++elements) {
      const std::vector<TensorView> views = {{"a", {elements, 1}, memory.data(), type},
                                             {"b", {1}, memory.data()}};
      ASSERT_TRUE(write_safetensors(path_, views, {}).ok());
      const auto file = read_safetensors(path_);
      ASSERT_TRUE(file.ok()) << file.status();
      const Tensor& read = file->tensors[0];
      EXPECT_EQ(read.name, "a");
      EXPECT_EQ(read.dtype, type);
      // Four bytes make a float; the last one is filled up with zeros.
      const std::size_t bytes = static_cast<std::size_t>(elements * width);
      std::string expected(reinterpret_cast<const char*>(memory.data()), bytes);
      expected.resize((bytes + 3) / 4 * 4, '\0');
      EXPECT_EQ(
          std::string(reinterpret_cast<const char*>(read.data.data()), read.data.size() * sizeof(float)),
          expected)
          << elements << " of " << ps::name_of(type);
      EXPECT_EQ(file->tensors[1].dtype, ps::Dtype::kFloat32);
    }
  }
}

// A model's file may be larger than the memory.
TEST_F(SafetensorsTest, ATensorIsGivenBeforeTheNextOneIsRead) {
  const std::vector<float> values(1 << 20, 1.0f);
  const std::int64_t count = std::ssize(values);
  const std::vector<TensorView> views = {
      {"a", {count}, values.data()}, {"b", {count}, values.data()}, {"c", {1}, values.data()}};
  ASSERT_TRUE(write_safetensors(path_, views, {}).ok());
  const float changed = 7;
  std::vector<Tensor> taken;
  const absl::Status status = each_tensor(path_, [&](Tensor tensor) {
    if (taken.empty()) {  // the last value of b
      std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-2 * static_cast<std::streamoff>(sizeof changed), std::ios::end);
      file.write(reinterpret_cast<const char*>(&changed), sizeof changed);
    }
    taken.push_back(std::move(tensor));
  });
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken.back().data.back(), changed);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(SafetensorsTest, AMissingFileIsNamed) {
  const auto status = read_safetensors(path_).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_.string()));
}

}  // namespace
}  // namespace paceline::store
