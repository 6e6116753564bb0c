// Pipelines of stages in one process, over shared weights and gradients: any cut gives the very bits of the
// whole model.
#include "paceline/computing/train/stage.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>

#include "paceline/computing/train/tensor_bytes.h"
#include "paceline/computing/train/testing.h"
#include "paceline/computing/train/testing/bench.h"

namespace paceline::train {
namespace {

constexpr std::int64_t kBatch = 5;
constexpr std::int64_t kMicroBatch = 2;  // 2, 2 and 1

struct Case {
  std::string name;
  bool batch_norm;
};

config::ModelConfig small(const std::string& name) {
  config::ModelConfig model;
  model.name = name;
  model.width = 16;
  model.heads = 2;
  return model;
}

std::vector<std::int64_t> sizes(std::int64_t samples, std::int64_t most) {
  const MicroBatches micros(samples, most);
  std::vector<std::int64_t> sizes;
  for (std::int64_t m = 0; m < micros.count(); ++m) {
    EXPECT_EQ(micros.begin(m), m == 0 ? 0 : micros.end(m - 1));
    sizes.push_back(micros.size(m));
  }
  EXPECT_EQ(micros.end(micros.count() - 1), samples);
  return sizes;
}

TEST(MicroBatches, LeaveNoRestOfOneSampleIfTheyMayHaveThree) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes(12, 5), (Sizes{5, 5, 2}));
  EXPECT_EQ(sizes(9, 4), (Sizes{4, 3, 2}));
  EXPECT_EQ(sizes(4, 3), (Sizes{2, 2}));
  EXPECT_EQ(sizes(5, 2), (Sizes{2, 2, 1}));
  EXPECT_EQ(sizes(3, 1), (Sizes{1, 1, 1}));
  EXPECT_EQ(sizes(1, kWholeBatch), (Sizes{1}));
}

class Pipeline {
 public:
  Pipeline(const std::string& name, const std::vector<std::int64_t>& cuts) {
    const auto units = *unit_count(small(name), shape_for(name), classes_for(name));
    for (std::size_t s = 0; s <= cuts.size(); ++s) {
      const UnitRange range{s == 0 ? 0 : cuts[s - 1], s == cuts.size() ? units : cuts[s]};
      stages_.push_back(Stage::create(small(name), shape_for(name), classes_for(name), range).value());
    }
  }

  // All micro-batches forward, then all backward, into the bench's gradients. The loss.
  double step(Bench& bench, const Batch& batch) {
    const MicroBatches micros(batch.inputs.size(0), kMicroBatch);
    for (auto& stage : stages_)
      EXPECT_TRUE(stage->start(bench.weight_pointers, bench.gradient_pointers, 7).ok());
    double loss = 0;
    for (std::int64_t m = 0; m < micros.count(); ++m)
      loss += micros.share(m) * forward(m, micro_batch(micros, batch, m), micros.share(m));
    for (std::int64_t m = 0; m < micros.count(); ++m) backward(m, micros.size(m));
    return loss;
  }

  double forward(std::int64_t micro, const Batch& batch, double share) {
    torch::Tensor x = batch.inputs;
    for (std::size_t s = 0; s + 1 < stages_.size(); ++s) {
      x = stages_[s]->forward(micro, x, share).value().clone();
      expect_shape(x, batch.inputs.size(0), stages_[s]->output_shape());
      expect_shape(x, batch.inputs.size(0), stages_[s + 1]->input_shape());
    }
    return stages_.back()->forward(micro, x, batch.targets, share).value();
  }

  void backward(std::int64_t micro, std::int64_t samples) {
    torch::Tensor gradient;
    for (std::size_t s = stages_.size(); s-- > 0;) {
      gradient = stages_[s]->backward(micro, gradient).value();
      if (s == 0) {
        EXPECT_FALSE(gradient.defined());
      } else {
        expect_shape(gradient, samples, stages_[s]->input_shape());
        gradient = gradient.clone();
      }
    }
  }

  static void expect_shape(const torch::Tensor& batch, std::int64_t samples, std::vector<std::int64_t> one) {
    one.insert(one.begin(), samples);
    EXPECT_EQ(batch.sizes(), one);
    EXPECT_EQ(batch.scalar_type(), torch::kFloat32);
  }

 private:
  std::vector<std::unique_ptr<Stage>> stages_;
};

// No cut, every cut, every pair of cuts, and a stage for each unit.
std::vector<std::vector<std::int64_t>> cuts_of(std::int64_t units) {
  std::vector<std::vector<std::int64_t>> all = {{}};
  for (std::int64_t one = 1; one < units; ++one) {
    all.push_back({one});
    for (std::int64_t two = one + 1; two < units; ++two) all.push_back({one, two});
  }
  all.emplace_back();
  for (std::int64_t cut = 1; cut < units; ++cut) all.back().push_back(cut);
  return all;
}

class StagesOf : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Models, StagesOf,
                         ::testing::Values(Case{"mlp", false}, Case{"cnn", false}, Case{"resnet20", true},
                                           Case{"gpt-byte", false}),
                         [](const auto& param) {
                           std::string name = param.param.name;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(StagesOf, AnyCutGivesTheBitsOfTheWholeModel) {
  const std::string& name = GetParam().name;
  Bench bench(small(name), shape_for(name), classes_for(name));
  const Batch batch = batch_for(name, kBatch);
  const auto whole = bench.step(batch);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto gradient = bench.all_gradients();
  const auto micro = bench.step(batch, kMicroBatch);
  const auto expected = bench.all_gradients();
  bench.weights->make_read_only();

  const auto units = unit_count(small(name), shape_for(name), classes_for(name));
  ASSERT_TRUE(units.ok()) << units.status();
  for (const auto& cuts : cuts_of(*units)) {
    SCOPED_TRACE(::testing::PrintToString(cuts));
    std::fill(bench.gradients->floats().begin(), bench.gradients->floats().end(), 1e9f);
    EXPECT_EQ(Pipeline(name, cuts).step(bench, batch), micro->loss);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(torch::equal(bench.gradient(i), expected[i])) << i;
      if (!GetParam().batch_norm) {
        EXPECT_TRUE(torch::allclose(bench.gradient(i), gradient[i], 1e-5, 1e-5)) << i;
      }
    }
  }
}

// Other models of the process draw meanwhile, and a stage on another host draws nothing of the others.
TEST(Stage, DropoutFollowsFromTheSeedAloneWhateverElseDraws) {
  const std::string name = "vgg16-plain";
  const auto units = *unit_count(small(name), shape_for(name), classes_for(name));
  Bench bench(small(name), shape_for(name), classes_for(name));
  const Batch batch = batch_for(name, 2);
  const auto loss = [&](std::uint64_t seed, std::uint64_t others, std::int64_t cut) {
    const auto front = Stage::create(small(name), shape_for(name), classes_for(name), {0, cut}).value();
    const auto back = Stage::create(small(name), shape_for(name), classes_for(name), {cut, units}).value();
    for (Stage* stage : {front.get(), back.get()})
      EXPECT_TRUE(stage->start(bench.weight_pointers, bench.gradient_pointers, seed).ok());
    torch::manual_seed(others);
    const torch::Tensor x = front->forward(0, batch.inputs, 1).value().clone();
    torch::manual_seed(others + 1);
    return back->forward(0, x, batch.targets, 1).value();
  };
  const double expected = loss(7, 1, 1);
  EXPECT_EQ(loss(7, 2, 1), expected);
  EXPECT_EQ(loss(7, 1, units - 4), expected) << "the second dropout is the first unit of the last stage";
  EXPECT_NE(loss(8, 1, 1), expected);
}

TEST(Stage, ForgetsAnIterationThatWasGivenUp) {
  Bench bench(small("resnet20"), shape_for("resnet20"), 10);
  const Batch batch = random_images(kBatch);
  ASSERT_TRUE(bench.step(batch, kMicroBatch).ok());
  const auto expected = bench.all_gradients();
  Pipeline pipeline("resnet20", {7});
  pipeline.step(bench, random_images(4));
  pipeline.forward(0, random_images(2), 0.5);
  pipeline.step(bench, batch);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(bench.gradient(i), expected[i]));
}

TEST(Stage, TouchesItsOwnTensorsAlone) {
  Bench bench(small("resnet20"), shape_for("resnet20"), 10);
  const auto stage = Stage::create(small("resnet20"), shape_for("resnet20"), 10, {4, 5}).value();
  ASSERT_TRUE(stage->start(bench.weight_pointers, bench.gradient_pointers, 7).ok());
  std::vector<std::int64_t> shape = stage->input_shape();
  shape.insert(shape.begin(), 2);
  const auto output = stage->forward(0, torch::randn(shape), 1);
  ASSERT_TRUE(output.ok()) << output.status();
  ASSERT_TRUE(stage->backward(0, torch::randn_like(*output)).ok());
  const auto& tensors = stage->layout().tensors();
  const auto within = [&, floats = stage->floats()](const ps::TensorSpec& tensor) {
    return std::any_of(floats.begin(), floats.end(), [&](const ps::FloatRange& range) {
      return range.begin <= tensor.offset && tensor.offset + tensor.size <= range.end;
    });
  };
  EXPECT_EQ(stage->floats().size(), 2u) << "its parameters, and its statistics";
  int own = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool untouched = bench.gradient(i).eq(1e9f).all().item<bool>();
    EXPECT_EQ(within(tensors[i]), !untouched) << tensors[i].name;
    EXPECT_EQ(!untouched, tensors[i].name.starts_with("stage1_1.")) << tensors[i].name;
    own += untouched ? 0 : 1;
  }
  EXPECT_EQ(own, 10);  // two convolutions, two norms of four
}

TEST(TensorBytes, ArriveAsTheyWereSent) {
  const torch::Tensor sent = torch::randn({4, 3, 2}).transpose(1, 2);  // not in order in memory
  std::vector<std::byte> room(200);
  const auto bytes = write_tensor(sent, room);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(static_cast<std::int64_t>(*bytes), tensor_bytes({2, 3}, 4));
  const auto received = read_tensor(std::span(room).first(*bytes), {2, 3}, 4);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(torch::equal(*received, sent));
  expect_error(read_tensor(room, {2, 3}, 4).status(), absl::StatusCode::kDataLoss, {"200 bytes"});
  expect_error(write_tensor(sent, std::span(room).first(95)).status(), absl::StatusCode::kInvalidArgument,
               {"96 bytes", "95"});
}

TEST(Stage, ModelsHaveTheUnitsThatTheManualSays) {
  for (const auto& [name, units] : {std::pair{"mlp", 6}, std::pair{"cnn", 10}, std::pair{"alexnet-small", 13},
                                    std::pair{"resnet20", 15}, std::pair{"gpt-byte", 2 + 3}})
    EXPECT_EQ(*unit_count(small(name), shape_for(name), classes_for(name)), units) << name;
}

TEST(Stage, ReportsUnitsThatAreNotThere) {
  EXPECT_EQ(*unit_count(small("mlp"), kCifar, 10), 6);
  for (const UnitRange range : {UnitRange{0, 7}, UnitRange{3, 3}, UnitRange{-1, 2}, UnitRange{6, 7}}) {
    expect_error(Stage::create(small("mlp"), kCifar, 10, range).status(), absl::StatusCode::kInvalidArgument,
                 {"mlp has 6 units"});
  }
}

TEST(Stage, ReportsAnInputThatDoesNotFit) {
  Bench bench(small("resnet20"), shape_for("resnet20"), 10);
  const auto stage = Stage::create(small("resnet20"), kCifar, 10, {0, 2}).value();
  ASSERT_TRUE(stage->start(bench.weight_pointers, bench.gradient_pointers, 7).ok());
  expect_error(stage->forward(0, torch::randn({2, 1, 28, 28}), 1).status(), absl::StatusCode::kInternal,
               {"a forward pass", "channels"});
}

}  // namespace
}  // namespace paceline::train
