// Narrow tensors, whose gradients and published weights are bfloat16, against tensors that are not: the same float32
// weights and state to the last bit, if the gradients are the same numbers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/ps/board_buffer.h"
#include "paceline/parameters/ps/convert.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/parameters/ps/testing/every_optimizer.h"

namespace paceline::ps {
namespace {

const std::vector<OptimizerConfig> kSteps = testing::elementwise_optimizers();

// Two narrow parameters, one that is not and a statistic. Sizes are no multiples of anything.
Layout mixed_layout(bool narrow) {
  Layout layout;
  layout.add("first", TensorKind::kParameter, {57, 101}, Dtype::kBfloat16);
  layout.add("second", TensorKind::kParameter, {3}, Dtype::kBfloat16);
  layout.add("norm", TensorKind::kParameter, {2501});
  layout.add("mean", TensorKind::kStatistic, {41});
  layout.add("table", TensorKind::kConstant, {7}, Dtype::kInt64);
  if (narrow) layout.set_narrow(layout.leading_bfloat16());
  return layout;
}

// Random numbers in the tensors, those of the first ones such that bfloat16 has them, and zeros in the padding.
std::vector<float> mixed_floats(std::uint64_t seed) {
  const Layout layout = mixed_layout(true);
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(layout.size()));
  for (const TensorSpec& tensor : layout.tensors()) {
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      const auto value = static_cast<float>(rng.normal());
      values[static_cast<std::size_t>(i)] = i < layout.narrow() ? widened(narrowed(value)) : value;
    }
  }
  return values;
}

// The same gradient in the form of a layout with narrow tensors. Nobody looks at what lies between its two parts.
std::vector<float> as_narrow(const std::vector<float>& gradient, const Layout& layout) {
  std::vector<float> memory(gradient.size(), std::numeric_limits<float>::quiet_NaN());
  const auto narrow = static_cast<std::size_t>(layout.narrow());
  std::copy(gradient.begin() + layout.narrow(), gradient.end(), memory.begin() + layout.narrow());
  const std::vector<std::byte> bytes = convert(std::span(gradient).first(narrow), Dtype::kBfloat16);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  return memory;
}

void expect_same_bits(std::span<const float> a, std::span<const float> b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  if (a.empty()) return;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0) << what;
}

// The published bfloat16 are the published float32, rounded.
void expect_rounded(const Shard& shard) {
  const auto narrow = static_cast<std::size_t>(shard.layout().narrow());
  const std::vector<std::byte> rounded = convert(shard.weights().first(narrow), Dtype::kBfloat16);
  EXPECT_EQ(std::memcmp(shard.narrow_weights(), rounded.data(), rounded.size()), 0);
}

TEST(Narrow, ConversionsAreThoseOfFiles) {
  std::vector<float> values = {0.0f,    -0.0f,    1.0f,      1.00390625f, 1.01171875f,
                               3.4e38f, INFINITY, -INFINITY, 1e-40f};
  Rng rng(3);
  for (int i = 0; i < 1000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng.next())));
  const std::vector<std::byte> expected = convert(values, Dtype::kBfloat16);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Bfloat16 bits = 0;
    std::memcpy(&bits, expected.data() + 2 * i, 2);
    EXPECT_EQ(narrowed(values[i]), bits) << values[i];
    float back = 0;
    ASSERT_TRUE(to_float32(std::span(expected).subspan(2 * i, 2), Dtype::kBfloat16, std::span(&back, 1)));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(widened(bits)), std::bit_cast<std::uint32_t>(back));
  }
}

TEST(Narrow, APartOfALayoutKeepsWhatIsNarrow) {
  const Layout layout = mixed_layout(true);
  EXPECT_EQ(layout.narrow(), 5760 + 16);
  EXPECT_NE(layout, mixed_layout(false));
  EXPECT_EQ(layout.part(0, layout.size()), layout);
  EXPECT_EQ(layout.part(1600, 1616).narrow(), 16);
  EXPECT_EQ(layout.part(layout.narrow() - 16, layout.size()).narrow(), 16);
  EXPECT_EQ(layout.part(layout.narrow(), layout.size()).narrow(), 0);
  std::int64_t narrow = 0;
  for (const Layout& part : layout.split(3)) narrow += part.narrow();
  EXPECT_EQ(narrow, layout.narrow());
  EXPECT_FALSE(layout.can_be_narrow(layout.size())) << "the others are not of bfloat16";
  EXPECT_FALSE(layout.can_be_narrow(16)) << "within a tensor";
}

TEST(Narrow, AShardHasTheBitsOfOneWithoutNarrowTensors) {
  for (const OptimizerConfig& config : kSteps) {
    for (const bool clips : {false, true}) {
      const bool look_ahead = !clips && has_direction(config.kind);
      OptimizerConfig optimizer = config;
      if (clips) optimizer.clip = 3;
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(optimizer.kind), clips));
      const auto shard_on = [&](bool narrow, int threads, bool kept) {
        const Layout layout = mixed_layout(narrow);
        std::optional<KeptState> state;
        if (kept) state = KeptState::create(KeptShape::of(layout, optimizer.kind, threads), 1).value();
        return Shard(layout, optimizer,
                     memory::WeightWriter::create(Shard::board_floats(layout, look_ahead), 1, 1).value(),
                     threads, {}, {}, std::move(state));
      };
      Shard wide = shard_on(false, 1, false);
      std::vector<Shard> shards;
      for (const int threads : {1, 3}) {
        shards.push_back(shard_on(true, threads, false));
        shards.push_back(shard_on(true, threads, true));
      }
      const std::vector<float> first = mixed_floats(1);
      ASSERT_TRUE(wide.start(Version(0), first).ok());
      for (Shard& shard : shards) {
        ASSERT_TRUE(shard.start(Version(0), first).ok());
        expect_rounded(shard);
      }
      for (int version = 1; version < 5; ++version) {
        Update update{.version = Version(version), .members = {}};
        update.learning_rate = 0.1;
        update.fraction = version % 2 == 0 ? 1.0 : 0.5;
        Update narrow_update = update;
        std::vector<std::vector<float>> gradients, narrow_gradients;
        for (int member = 0; member < version; ++member) {
          gradients.push_back(mixed_floats(mix_seed({std::uint64_t(version), std::uint64_t(member)})));
          narrow_gradients.push_back(as_narrow(gradients.back(), mixed_layout(true)));
        }
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          const double weight = 0.3 + 0.1 * static_cast<double>(i), share = 1.0 / version;
          update.members.push_back({gradients[i].data(), weight, share});
          const float* const memory = narrow_gradients[i].data();
          narrow_update.members.push_back({memory, weight, share, narrow_part(memory)});
        }
        ASSERT_TRUE(wide.apply(update).ok());
        for (Shard& shard : shards) {
          ASSERT_TRUE(shard.apply(narrow_update).ok());
          EXPECT_TRUE(shard.finite());
          expect_same_bits(wide.weights(), shard.weights(), "weights");
          expect_same_bits(wide.direction(), shard.direction(), "direction");
          const OptimizerState expected = wide.optimizer_state(), state = shard.optimizer_state();
          for (std::size_t i = 0; i < expected.streams.size(); ++i)
            expect_same_bits(expected.streams[i], state.streams[i], "state");
          expect_rounded(shard);
        }
      }
    }
  }
}

TEST(Narrow, ANumberThatIsNotFiniteIsSeenInEitherPart) {
  const Layout layout = mixed_layout(true);
  for (const std::int64_t at : {std::int64_t{0}, layout.narrow() - 29, layout.narrow(), layout.size() - 80}) {
    std::vector<float> gradient = mixed_floats(1);
    EXPECT_TRUE(all_finite(layout, as_narrow(gradient, layout).data()));
    gradient[static_cast<std::size_t>(at)] = INFINITY;
    const std::vector<float> memory = as_narrow(gradient, layout);
    EXPECT_FALSE(all_finite(layout, memory.data())) << at;
    EXPECT_FALSE(all_finite(layout, memory.data(), {at, at + 1})) << at;
    Shard shard(layout, kSteps[0],
                memory::WeightWriter::create(Shard::board_floats(layout, false), 1, 1).value(), 1);
    ASSERT_TRUE(shard.start(Version(0), mixed_floats(2)).ok());
    Update update{.version = Version(1), .members = {{memory.data(), 1.0, 1.0, narrow_part(memory.data())}}};
    update.learning_rate = 0.1;
    ASSERT_TRUE(shard.apply(update).ok());
    EXPECT_FALSE(shard.finite()) << at;
  }
}

// A server with a part of the model steps with its part of each gradient.
TEST(Narrow, APartOfAGradientIsThatOfTheShard) {
  const Layout layout = mixed_layout(true);
  const std::vector<float> gradient = mixed_floats(1);
  const std::vector<float> memory = as_narrow(gradient, layout);
  std::int64_t offset = 0;
  for (const Layout& part : layout.split(2)) {
    Shard shard(part, kSteps[0], memory::WeightWriter::create(Shard::board_floats(part, false), 1, 1).value(),
                1);
    const auto values = shard.read_gradient(host_gradient(memory.data()), offset).value();
    for (std::int64_t i = 0; i < part.size(); ++i) {
      const float value = i < part.narrow() ? widened(narrow_part(values.data())[i]) : values[std::size_t(i)];
      ASSERT_EQ(value, gradient[static_cast<std::size_t>(offset + i)]) << offset << " + " << i;
    }
    offset += part.size();
  }
}

TEST(Narrow, SquaresAreThoseOfTheSameNumbers) {
  const std::vector<float> gradient = mixed_floats(9);
  const std::vector<float> memory = as_narrow(gradient, mixed_layout(true));
  for (const std::int64_t n : {0, 1, 15, 16, 5757})
    EXPECT_EQ(squares_of(narrow_part(memory.data()), n), squares_of(gradient.data(), n));
}

}  // namespace
}  // namespace paceline::ps
