// The examples of docs/extending.md that need libtorch: a model learns, and a data set can be learnt. They
// are no lines of the tables, so their files are part of this one.
#include <numeric>

#include <gtest/gtest.h>

#include "examples/extending/rings.cc"
#include "examples/extending/tiny_net.cc"
#include "paceline/computing/train/model.h"

namespace example {
namespace {

constexpr std::uint64_t kSeed = 3;

train::Batch first_of(const train::DataSet& set, std::int32_t from, std::int32_t count) {
  std::vector<std::int32_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), from);
  return set.batch(indices, 0);
}

// The share of the test set's first thousand that it gets right after so many steps.
double trained(torch::nn::Sequential model, const train::DataSets& sets, int steps) {
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  for (int step = 0; step < steps; ++step) {
    const train::Batch batch = first_of(*sets.train, 64 * step, 64);
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model->forward(batch.inputs), batch.targets).backward();
    optimizer.step();
  }
  const torch::NoGradGuard no_grad;
  const train::Batch test = first_of(*sets.test, 0, 1000);
  return model->forward(test.inputs).argmax(1).eq(test.targets).to(torch::kFloat64).mean().item<double>();
}

train::DataSets rings() { return kRings.load({}, "", 0).value(); }

TEST(TinyNet, LearnsDigits) {
  paceline::config::DataConfig data;
  data.source = "digits";
  const train::DataSets sets = train::load_data(data, 0).value();
  ModelConfig config;
  config.width = 16;
  const auto model = train::make_model(kTinyNet, config, {1, 28, 28}, 10, kSeed);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GT(trained(*model, sets, 100), 0.2);  // of ten classes
}

TEST(TinyNet, ItsWeightsAreAFunctionOfTheSeed) {
  const auto weights = [](std::uint64_t seed) {
    return (*train::make_model(kTinyNet, {}, {3, 32, 32}, 10, seed))->parameters().front().clone();
  };
  EXPECT_TRUE(torch::equal(weights(1), weights(1)));
  EXPECT_FALSE(torch::equal(weights(1), weights(2)));
}

TEST(TinyNet, SaysWhatDoesNotFit) {
  EXPECT_FALSE(train::make_model(kTinyNet, {}, {64}, 10, kSeed).ok());
  EXPECT_FALSE(train::make_model(kTinyNet, {}, {1, 4, 28}, 10, kSeed).ok());
}

TEST(Rings, AnMlpLearnsThem) {
  const train::DataSets sets = rings();
  ModelConfig config;
  config.name = "mlp";
  config.width = 32;
  const auto model = train::make_model(config, sets.train->sample_shape(), sets.train->classes(), kSeed);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GT(trained(*model, sets, 150), 0.9);
}

TEST(Rings, ASampleIsAFunctionOfItsIndex) {
  const train::DataSets sets = rings();
  EXPECT_TRUE(
      torch::equal(first_of(*sets.train, 10, 5).inputs, first_of(*sets.train, 0, 15).inputs.slice(0, 10)));
  EXPECT_NE(sets.train->digest(), sets.test->digest());
}

}  // namespace
}  // namespace example
