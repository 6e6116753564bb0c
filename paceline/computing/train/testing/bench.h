// Replicas on memory of their own, and batches for any model of the zoo: for the tests of what computes
// gradients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/utils.h>

#include "paceline/computing/train/local_model.h"
#include "paceline/computing/train/model.h"
#include "paceline/computing/train/threads.h"

namespace paceline::train {

inline const std::vector<std::int64_t> kCifar = {3, 32, 32};

// Flat weights and gradients as a worker has them: in mapped memory, so that the weights can be made
// read-only.
class Mapped {
 public:
  explicit Mapped(std::int64_t floats) : bytes_(static_cast<std::size_t>(floats) * sizeof(float)) {
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ~Mapped() { munmap(base_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  std::span<float> floats() { return {static_cast<float*>(base_), bytes_ / sizeof(float)}; }
  void make_read_only() { ASSERT_EQ(mprotect(base_, bytes_, PROT_READ), 0); }

 private:
  std::size_t bytes_;
  void* base_ = nullptr;
};

// A model with memory of its own. Gradients start as rubbish, which a step must overwrite.
struct Bench {
  Bench(const config::ModelConfig& of, const std::vector<std::int64_t>& shape, std::int64_t classes)
      : config(of) {
    use_threads(1);
    auto created = LocalModel::create(config, shape, classes, 42);
    EXPECT_TRUE(created.ok()) << created.status();
    model = *std::move(created);
    const ps::Layout& layout = model->layout();
    weights = std::make_unique<Mapped>(layout.size());
    gradients = std::make_unique<Mapped>(layout.size());
    model->initial_weights(weights->floats());
    std::fill(gradients->floats().begin(), gradients->floats().end(), 1e9f);
    weight_pointers = tensor_pointers<const float>(layout, weights->floats().data());
    gradient_pointers = tensor_pointers<float>(layout, gradients->floats().data());
  }

  absl::StatusOr<StepResult> step(const Batch& batch, std::int64_t micro_batch = kWholeBatch) {
    return model->step(batch, weight_pointers, gradient_pointers, 7, micro_batch);
  }

  // One step of plain SGD.
  void descend(float rate) {
    for (const ps::TensorSpec& tensor : model->layout().tensors()) {
      for (std::int64_t at = tensor.offset; at < tensor.offset + tensor.size; ++at) {
        const auto place = static_cast<std::size_t>(at);
        weights->floats()[place] -= rate * gradients->floats()[place];
      }
    }
  }

  // Tensor i of the gradients, copied.
  torch::Tensor gradient(std::size_t i) const {
    return torch::from_blob(gradient_pointers[i], model->layout().tensors()[i].shape).clone();
  }

  std::vector<torch::Tensor> all_gradients() const {
    std::vector<torch::Tensor> all;
    for (std::size_t i = 0; i < gradient_pointers.size(); ++i) all.push_back(gradient(i));
    return all;
  }

  config::ModelConfig config;
  std::unique_ptr<LocalModel> model;
  std::unique_ptr<Mapped> weights;
  std::unique_ptr<Mapped> gradients;
  std::vector<const float*> weight_pointers;
  std::vector<float*> gradient_pointers;
};

inline Batch random_images(std::int64_t count) {
  torch::manual_seed(3);
  return {torch::randn({count, 3, 32, 32}), torch::randint(10, {count}, torch::kInt64)};
}

inline Batch random_bytes(std::int64_t count) {
  torch::manual_seed(3);
  return {torch::randint(256, {count, 64}, torch::kInt64), torch::randint(256, {count, 64}, torch::kInt64)};
}

inline bool is_text(const std::string& name) { return name == "gpt-byte"; }

inline std::vector<std::int64_t> shape_for(const std::string& name) {
  return is_text(name) ? std::vector<std::int64_t>{64} : kCifar;
}

inline std::int64_t classes_for(const std::string& name) { return is_text(name) ? 256 : 10; }

inline Bench bench_for(const std::string& name) {
  config::ModelConfig model;
  model.name = name;
  return Bench(model, shape_for(name), classes_for(name));
}

// The same model held the ordinary way, by libtorch alone.
inline torch::nn::Sequential model_for(const std::string& name) {
  config::ModelConfig model;
  model.name = name;
  return *make_model(model, shape_for(name), classes_for(name), 42);
}

inline Batch batch_for(const std::string& name, std::int64_t count) {
  return is_text(name) ? random_bytes(count) : random_images(count);
}

}  // namespace paceline::train
