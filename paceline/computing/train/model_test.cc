#include "paceline/computing/train/model.h"

#include <cmath>
#include <map>

#include <torch/nn/modules/container/sequential.h>
#include <torch/utils.h>

#include "paceline/computing/train/models.h"
#include "paceline/computing/train/testing.h"
#include "paceline/computing/train/units.h"

namespace paceline::train {
namespace {

const std::vector<std::int64_t> kCifarSample = {3, 32, 32};
const std::vector<std::int64_t> kMnistSample = {1, 28, 28};

torch::nn::Sequential made(const config::ModelConfig& config, const std::vector<std::int64_t>& shape,
                           std::int64_t classes = 10, std::uint64_t seed = 1) {
  auto model = make_model(config, shape, classes, seed);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

std::int64_t parameters(const ps::Layout& layout) {
  std::int64_t sum = 0;
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    if (tensor.kind == ps::TensorKind::kParameter) sum += tensor.size;
  }
  return sum;
}

std::vector<torch::Tensor> weights_of(torch::nn::Sequential model) {
  std::vector<torch::Tensor> all = model->parameters();
  for (const torch::Tensor& buffer : model->buffers()) all.push_back(buffer);
  return all;
}

// Counted by hand from the architectures; the residual networks' are the 0.27, 0.85 and 1.7 M of He et al.
TEST(Model, HasTheParametersItsArchitectureSays) {
  const std::map<std::string, std::int64_t> expected = {
      {"mlp", 3072 * 128 + 128 + 128 * 128 + 128 + 128 * 10 + 10},
      {"cnn", 27 * 32 + 32 + 288 * 64 + 64 + 4096 * 128 + 128 + 1280 + 10},
      {"alexnet-small", 75 * 64 + 64 + 1600 * 64 + 64 + 1600 * 128 + 128 + 2048 * 512 + 512 + 5120 + 10},
      {"resnet20", 269722},
      {"resnet50", 755802},
      {"resnet56", 853018},
      {"resnet110", 1727962},
      {"vgg11", 9 * (3 * 64 + 64 * 128 + 128 * 256 + 256 * 256 + 256 * 512 + 3 * 512 * 512) +
                    2 * (64 + 128 + 2 * 256 + 4 * 512) + 5130},
      {"vgg16",
       9 * (3 * 64 + 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 2 * 256 * 256 + 256 * 512 + 5 * 512 * 512) +
           2 * (2 * 64 + 2 * 128 + 3 * 256 + 6 * 512) + 5130},
      {"vgg16-plain",
       9 * (3 * 64 + 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 2 * 256 * 256 + 256 * 512 + 5 * 512 * 512) +
           (2 * 64 + 2 * 128 + 3 * 256 + 6 * 512) + 512 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 10 + 10},
      {"alexnet", 61'100'840},  // the published number, for 1,000 classes
      // Two blocks of four dense layers and two norms, and the ends.
      {"gpt-byte", 2 * (12 * 128 * 128 + 13 * 128) + 256 * 128 + 64 * 128 + 2 * 128 + 128 * 256 + 256},
  };
  for (const std::string& name : config::model_names()) {
    const auto count = expected.find(name);
    ASSERT_NE(count, expected.end()) << "count the parameters of " << name << " here";
    const Samples samples = find_model(name)->usual(model_named(name));
    torch::nn::Sequential model = *build_model(model_named(name), samples.shape, samples.classes);
    EXPECT_EQ(parameters(layout_of(model)), count->second) << name;
  }
}

TEST(Model, AlexnetWantsLargeImages) {
  const std::vector<std::int64_t> image = {3, 63, 70};
  torch::nn::Sequential model = made(model_named("alexnet"), image, 1000);
  const torch::NoGradGuard no_grad;
  model->eval();
  const torch::Tensor logits = model->forward(torch::randn({2, 3, 63, 70}));
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 1000}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  expect_error(make_model(model_named("alexnet"), {3, 62, 70}, 10, 1).status(),
               absl::StatusCode::kInvalidArgument, {"alexnet", "63 x 63", "62 x 70", "alexnet-small"});
}

TEST(Model, HasAHundredLogitsForAHundredClasses) {
  torch::nn::Sequential model = made(model_named("resnet50"), kCifarSample, 100);
  EXPECT_EQ(parameters(layout_of(model)), 761652);
}

TEST(Model, AnUnknownNameIsAnError) {
  expect_error(make_model(model_named("vgg17"), kCifarSample, 10, 1).status(),
               absl::StatusCode::kInvalidArgument, {"vgg17", "vgg16-plain", "resnet50", "alexnet"});
}

TEST(Model, LayoutIsParametersThenStatistics) {
  torch::nn::Sequential model = made(model_named("resnet20"), kCifarSample);
  const ps::Layout layout = layout_of(model);
  std::size_t at = 0;
  for (const auto& parameter : model->named_parameters()) {
    const ps::TensorSpec& tensor = layout.tensors().at(at++);
    EXPECT_EQ(tensor.name, parameter.key());
    EXPECT_EQ(tensor.kind, ps::TensorKind::kParameter);
    EXPECT_EQ(parameter.value().sizes(), tensor.shape);
  }
  EXPECT_EQ(layout.tensors().size() - at, 2u * 19);  // a mean and a variance for each of 19 norms
  for (; at < layout.tensors().size(); ++at) {
    EXPECT_EQ(layout.tensors()[at].kind, ps::TensorKind::kStatistic);
    EXPECT_NE(layout.tensors()[at].name.find(".running_"), std::string::npos);
  }
}

TEST(Model, ImageModelsTakeCifarAndMnist) {
  const torch::NoGradGuard no_grad;
  for (const char* name : {"mlp", "cnn", "alexnet-small", "resnet20", "vgg11", "vgg16-plain"}) {
    for (const auto& shape : {kCifarSample, kMnistSample}) {
      torch::nn::Sequential model = made(model_named(name), shape, 7);
      const torch::Tensor logits = model->forward(torch::randn({2, shape[0], shape[1], shape[2]}));
      EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 7})) << name;
      EXPECT_TRUE(logits.isfinite().all().item<bool>()) << name;
    }
  }
}

// A worker maps the weights; a second copy of them would be most of its memory.
TEST(Model, HasNoMemoryOfItsOwnForParametersOnceItIsCutIntoUnits) {
  torch::nn::Sequential model = made(model_named("resnet20"), kCifarSample);
  const ps::Layout before = layout_of(model);
  const Units units(model, 0, static_cast<std::int64_t>(model->size()));
  for (const torch::Tensor& parameter : model->parameters()) {
    EXPECT_EQ(parameter.storage().nbytes(), sizeof(float));
  }
  EXPECT_EQ(layout_of(model), before);
}

// Each unit on its own, from input to logits: what a pipeline does with the model.
TEST(Model, CanBeCutBetweenAnyTwoUnits) {
  const torch::NoGradGuard no_grad;
  for (const char* name : {"alexnet-small", "resnet20", "gpt-byte"}) {
    const bool bytes = name == std::string("gpt-byte");
    torch::nn::Sequential model =
        bytes ? made(model_named(name), {64}, 256) : made(model_named(name), kCifarSample);
    const torch::Tensor input =
        bytes ? torch::randint(256, {2, 64}, torch::kInt64) : torch::randn({2, 3, 32, 32});
    model->eval();
    torch::Tensor x = input;
    for (torch::nn::AnyModule& unit : *model) x = unit.forward(x.clone());
    EXPECT_TRUE(torch::equal(x, model->forward(input))) << name;
  }
}

TEST(Model, GptByteSeesNoByteThatComesLater) {
  const torch::NoGradGuard no_grad;
  torch::nn::Sequential model = made(model_named("gpt-byte"), {64}, 256);
  const torch::Tensor before = torch::randint(256, {1, 64}, torch::kInt64);
  torch::Tensor after = before.clone();
  after[0][40] = (after[0][40] + 1) % 256;
  const torch::Tensor change = (model->forward(before) - model->forward(after)).abs().sum(2).squeeze(0);
  EXPECT_EQ(change.slice(0, 0, 40).max().item<float>(), 0.0f);
  EXPECT_GT(change.slice(0, 40).min().item<float>(), 0.0f);
}

// Option A, checked on a first block whose convolutions are zero: what comes out is the shortcut alone.
TEST(Model, ResidualShortcutTakesEveryOtherPixelAndPadsChannels) {
  const torch::NoGradGuard no_grad;
  torch::nn::Sequential model = made(model_named("resnet20"), kCifarSample);
  model->eval();
  const auto units = model->named_children();
  auto block = units["stage2_0"];
  for (torch::Tensor& parameter : block->parameters()) parameter.zero_();
  std::size_t place = 0;
  while (units.keys()[place] != "stage2_0") ++place;
  const torch::Tensor x = torch::rand({1, 16, 8, 8});
  torch::nn::AnyModule unit = *(model->begin() + static_cast<std::ptrdiff_t>(place));
  const torch::Tensor y = unit.forward(x);
  EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{1, 32, 4, 4}));
  EXPECT_TRUE(torch::equal(y.slice(1, 8, 24), x.slice(2, 0, 8, 2).slice(3, 0, 8, 2)));
  EXPECT_EQ(y.slice(1, 0, 8).abs().sum().item<float>() + y.slice(1, 24).abs().sum().item<float>(), 0.0f);
}

TEST(Model, WeightsDependOnTheSeedAlone) {
  for (const char* name : {"alexnet-small", "resnet20", "gpt-byte"}) {
    const bool bytes = name == std::string("gpt-byte");
    const auto shape = bytes ? std::vector<std::int64_t>{64} : kCifarSample;
    torch::manual_seed(1);
    const auto first = weights_of(made(model_named(name), shape, 256, 42));
    torch::manual_seed(2);
    const auto again = weights_of(made(model_named(name), shape, 256, 42));
    const auto other = weights_of(made(model_named(name), shape, 256, 43));
    bool differs = false;
    ASSERT_EQ(first.size(), again.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(torch::equal(first[i], again[i])) << name << " " << i;
      differs = differs || !torch::equal(first[i], other[i]);
    }
    EXPECT_TRUE(differs) << name;
  }
}

TEST(Model, WeightsHaveTheSpreadTheirSchemesSay) {
  torch::nn::Sequential resnet = made(model_named("resnet20"), kCifarSample);
  const auto image = resnet->named_parameters();
  EXPECT_NEAR(image["stage3_1.conv1.weight"].std().item<double>(), std::sqrt(2.0 / (64 * 9)), 1e-3);
  EXPECT_NEAR(image["stage3_1.conv1.weight"].mean().item<double>(), 0, 1e-3);
  EXPECT_NEAR(image["fc.weight"].abs().max().item<double>(), 1 / 8.0, 2e-3);
  EXPECT_TRUE(image["stage1_0.bn1.weight"].eq(1).all().item<bool>());
  EXPECT_TRUE(image["fc.bias"].eq(0).all().item<bool>());
  torch::nn::Sequential gpt = made(model_named("gpt-byte"), {64}, 256);
  const auto text = gpt->named_parameters();
  EXPECT_NEAR(text["block0.qkv.weight"].std().item<double>(), 0.02, 5e-4);
  EXPECT_NEAR(text["block1.mlp_out.weight"].std().item<double>(), 0.02 / std::sqrt(4.0), 2e-4);
  EXPECT_NEAR(text["block1.attention_out.weight"].std().item<double>(), 0.02 / std::sqrt(4.0), 2e-4);
  EXPECT_TRUE(text["block0.norm1.weight"].eq(1).all().item<bool>());
}

TEST(Model, RefusesWhatDoesNotFit) {
  const auto error = [](const config::ModelConfig& model, const std::vector<std::int64_t>& shape) {
    return make_model(model, shape, 10, 1).status();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  expect_error(error(model_named("resnet18"), kCifarSample), kInvalid,
               {"model.name = \"resnet18\"", "resnet20"});
  expect_error(error(model_named("cnn"), {64}), kInvalid, {"model.name = \"cnn\"", "[64]", "data.source"});
  expect_error(error(model_named("gpt-byte"), kCifarSample), kInvalid, {"[3, 32, 32]", "data.source"});
  expect_error(error(model_named("gpt-byte"), {32}), kInvalid, {"model.context = 64", "[32]"});
  config::ModelConfig model = model_named("gpt-byte");
  model.heads = 3;
  expect_error(error(model, {64}), kInvalid, {"model.heads = 3", "model.width = 128"});
  model.heads = 0;
  expect_error(error(model, {64}), kInvalid, {"model.heads = 0"});
  model = model_named("mlp");
  model.width = 0;
  expect_error(error(model, kCifarSample), kInvalid, {"model.width = 0"});
}

// More memory than there is: libtorch throws, and the exception ends here.
TEST(Model, TurnsExceptionsIntoStatus) {
  config::ModelConfig model = model_named("mlp");
  model.width = std::int64_t{1} << 40;
  expect_error(make_model(model, kCifarSample, 10, 1).status(), absl::StatusCode::kInternal, {"mlp"});
}

}  // namespace
}  // namespace paceline::train
