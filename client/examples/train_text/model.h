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

  std::size_t parameter_count() const { return parameter_count_; }
  std::size_t context() const { return shape_.context; }

  // The same parameters for the same seed on every machine: uses only exactly rounded arithmetic.
  void Initialize(std::uint64_t seed, Real* parameters) const;

  // Mean cross-entropy (nats a character) of the batch. Overwrites the whole gradient.
  double LossAndGradient(const Real* parameters, const Batch& batch, Real* gradient,
                         const OnSliceReady& on_slice_ready);

  // Returns `length` characters that the model writes after `prompt`, with at most two blanks in a row.
  std::string Sample(const Real* parameters, const std::string& prompt, std::size_t length, std::uint64_t seed);

 private:
  // One dense layer: where its parameters are and what it computed last.
  struct Layer {
    std::size_t in = 0;
    std::size_t out = 0;
    std::size_t offset = 0;    // of its weights in the flat arrays; the bias follows
    std::vector<Real> output;  // [batch][out], after the activation
    std::vector<Real> output_gradient;
    std::size_t parameter_count() const { return in * out + out; }
  };

  void Forward(const Real* parameters, const Batch& batch);
  void ForwardLayer(const Real* parameters, const std::vector<Real>& input, std::size_t batch_size, Layer* layer);
  double SoftmaxLoss(const Batch& batch);  // leaves the gradient of the logits in the last layer
  // Gradients of the layer's parameters and of its input.
  void BackwardLayer(const Real* parameters, const std::vector<Real>& input, std::size_t batch_size, const Layer& layer,
                     Real* gradient, std::vector<Real>* input_gradient);
  void BackwardEmbedding(const Batch& batch, Real* gradient);

  const Shape shape_;
  Layer layers_[3];
  std::size_t parameter_count_ = 0;
  std::vector<Real> input_;  // [batch][context * embedding]
  std::vector<Real> input_gradient_;
  std::vector<Real> transposed_;
};

}  // namespace train_text
