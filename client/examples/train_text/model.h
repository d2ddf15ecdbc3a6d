// The network: the last `context` characters -> embeddings, side by side -> two hidden layers (ReLU) -> softmax over
// the next character.
//
// Parameters and gradients are flat arrays of parameter_count() elements, so that they can live in shared memory and be
// all-reduced in slices: [embedding | hidden 1 | hidden 2 | output], each layer its weights [in][out], then its bias.
// The caller owns them. A Model owns only scratch; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/examples/train_text/text.h"

namespace train_text {

// The tests build this with double to compare gradients with finite differences.
#ifndef TRAIN_TEXT_REAL
#define TRAIN_TEXT_REAL float
#endif
using Real = TRAIN_TEXT_REAL;

struct Shape {
  std::size_t context = 32;
  std::size_t embedding = 16;
  std::size_t hidden1 = 384;
  std::size_t hidden2 = 256;
};

// Called during the backward pass as soon as gradient[offset, offset + count) is final, so that the all-reduce of a
// slice overlaps with the layers before it. The slices do not overlap and cover the whole gradient.
using OnSliceReady = std::function<void(std::size_t offset, std::size_t count)>;

class Model {
 public:
  explicit Model(const Shape& shape);

  std::size_t parameter_count() const { return layers_[2].offset + layers_[2].parameter_count(); }
  std::size_t context() const { return shape_.context; }

  // The same parameters for the same seed on every machine: uses only exactly rounded arithmetic.
  void Initialize(std::uint64_t seed, Real* parameters) const;

  // Mean cross-entropy (nats a character) of the batch. Overwrites the whole gradient.
  double LossAndGradient(const Real* parameters, const Batch& batch, Real* gradient,
                         const OnSliceReady& on_slice_ready);

  // Returns `length` characters that the model writes after `prompt`, with at most two blanks in a row.
  std::string Sample(const Real* parameters, const std::string& prompt, std::size_t length, std::uint64_t seed);

 private:
  struct Layer {
    std::size_t in = 0;
    std::size_t out = 0;
    std::size_t offset = 0;  // of its weights in the flat arrays; the bias follows
    std::size_t parameter_count() const { return in * out + out; }
  };

  void Forward(const Real* parameters, const Batch& batch);
  double SoftmaxLoss(const Batch& batch);  // leaves the gradient of the logits in gradients_[3]
  // From gradients_[number + 1] the gradients of the layer's parameters, and of its input: gradients_[number].
  void BackwardLayer(std::size_t number, const Real* parameters, std::size_t batch_size, Real* gradient);

  const Shape shape_;
  Layer layers_[3];
  std::vector<Real> values_[4];  // [batch][width]: the embeddings, then what each layer computed last
  std::vector<Real> gradients_[4];
  std::vector<Real> transposed_;
};

}  // namespace train_text
