#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/models.h"

namespace paceline::train {

namespace nn = torch::nn;

namespace {

nn::LayerNorm layer_norm(std::int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }

// The embedding of each byte plus that of its position: [n, context] → [n, context, width].
struct ByteEmbedding : nn::Module {
  ByteEmbedding(std::int64_t classes, std::int64_t context, std::int64_t width)
      : token(register_module("token", nn::Embedding(classes, width))),
        position(register_module("position", nn::Embedding(context, width))) {}

  torch::Tensor forward(const torch::Tensor& bytes) {
    return token(bytes) + position->weight.slice(0, 0, bytes.size(1));
  }

  nn::Embedding token;
  nn::Embedding position;
};

// Attention and a dense layer pair, each added to the stream that passes by. draw_gpt_tensor
// knows the two layers that add to it by their names, *_out.
struct TransformerBlock : nn::Module {
  TransformerBlock(std::int64_t width, std::int64_t head_count, std::int64_t context)
      : heads(head_count),
        norm1(register_module("norm1", layer_norm(width))),
        qkv(register_module("qkv", nn::Linear(width, 3 * width))),
        attention_out(register_module("attention_out", nn::Linear(width, width))),
        norm2(register_module("norm2", layer_norm(width))),
        mlp_in(register_module("mlp_in", nn::Linear(width, 4 * width))),
        mlp_out(register_module("mlp_out", nn::Linear(4 * width, width))),
        future(register_buffer("future", torch::ones({context, context}, torch::kBool).triu(1))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = x + attention(norm1(x));
    return y + mlp_out(torch::gelu(mlp_in(norm2(y))));
  }

  torch::Tensor attention(const torch::Tensor& x) {
    const std::int64_t n = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts = qkv(x).view({n, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const torch::Tensor query = parts[0] * (1.0 / std::sqrt(static_cast<double>(width / heads)));
    const torch::Tensor mask = future.slice(0, 0, length).slice(1, 0, length);
    const torch::Tensor scores = torch::matmul(query, parts[1].transpose(-2, -1));
    const torch::Tensor shares =
        torch::softmax(scores.masked_fill(mask, -std::numeric_limits<double>::infinity()), -1);
    return attention_out(torch::matmul(shares, parts[2]).transpose(1, 2).reshape({n, length, width}));
  }

  std::int64_t heads;
  nn::LayerNorm norm1;
  nn::Linear qkv;
  nn::Linear attention_out;
  nn::LayerNorm norm2;
  nn::Linear mlp_in;
  nn::Linear mlp_out;
  torch::Tensor future;  // [context, context]: true if a byte would see a later one
};

absl::Status check_gpt_byte(const config::ModelConfig& model, const SampleShape& samples) {
  for (const auto& [key, value] : {std::pair{"width", model.width}, std::pair{"layers", model.layers},
                                   std::pair{"heads", model.heads}, std::pair{"context", model.context}}) {
    PACELINE_RETURN_IF_ERROR(at_least_one(key, value));
  }
  if (model.width % model.heads != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "model.heads = {} does not divide model.width = {}; choose one that does", model.heads, model.width));
  }
  if (samples.size() == 1 && samples[0] == model.context) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "model.name = \"gpt-byte\" wants samples of model.context = {} bytes, but the data has samples of "
      "shape [{}]; set data.source to text:… or headers, or choose an image model",
      model.context, fmt::join(samples, ", ")));
}

nn::Sequential build_gpt_byte(const config::ModelConfig& model, const SampleShape&, std::int64_t classes) {
  nn::Sequential units;
  units->push_back("embedding", std::make_shared<ByteEmbedding>(classes, model.context, model.width));
  for (std::int64_t i = 0; i < model.layers; ++i) {
    units->push_back(fmt::format("block{}", i),
                     std::make_shared<TransformerBlock>(model.width, model.heads, model.context));
  }
  units->push_back("norm", layer_norm(model.width));
  units->push_back("head", nn::Linear(model.width, classes));
  return units;
}

// Normal 0.02, less by 1/√(2·layers) if a layer adds to the residual stream (Radford et al. 2019).
void draw_gpt_tensor(const config::ModelConfig& model, const ps::TensorSpec& tensor, Rng& rng,
                     std::span<float> out) {
  const bool residual = tensor.name.ends_with("_out.weight");
  draw_normal(residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(model.layers)) : 0.02, rng, out);
}

Samples bytes_samples(const config::ModelConfig& model) { return {{model.context}, 256}; }

}  // namespace

// A causal transformer over bytes, norms before the layers (Radford et al. 2019).
const Model Models::gpt_byte = {
    .check = check_gpt_byte, .build = build_gpt_byte, .draw = draw_gpt_tensor, .usual = bytes_samples};

}  // namespace paceline::train
