#include "client/examples/train_text/model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace train_text {
namespace {

// A matrix with strides, so that a transposed one needs no copy.
struct Strided {
  const Real* data;
  std::size_t row;
  std::size_t column;
};

// c += a * b, where a is m x k, b and c are row-major k x n and m x n. The compiler vectorises the innermost loop, in
// which a row of c is loaded and stored once for four rows of b.
void MultiplyAdd(Strided a, const Real* b, Real* __restrict c, std::size_t m, std::size_t k, std::size_t n) {
  const auto at = [&](std::size_t i, std::size_t p) { return p < k ? a.data[i * a.row + p * a.column] : Real{0}; };
  const auto row = [&](std::size_t p) { return b + std::min(p, k - 1) * n; };
  for (std::size_t p = 0; p < k; p += 4) {
    const Real* const rows[] = {row(p), row(p + 1), row(p + 2), row(p + 3)};
    for (std::size_t i = 0; i < m; ++i) {
      const Real factors[] = {at(i, p), at(i, p + 1), at(i, p + 2), at(i, p + 3)};
      Real* const to = c + i * n;
      for (std::size_t j = 0; j < n; ++j) {
        to[j] += factors[0] * rows[0][j] + factors[1] * rows[1][j] + factors[2] * rows[2][j] + factors[3] * rows[3][j];
      }
    }
  }
}

}  // namespace

Model::Model(const Shape& shape) : shape_(shape) {
  const std::size_t widths[] = {shape.context * shape.embedding, shape.hidden1, shape.hidden2, kSymbolCount};
  std::size_t offset = kSymbolCount * shape.embedding;
  for (std::size_t i = 0; i < 3; ++i) {
    layers_[i] = {.in = widths[i], .out = widths[i + 1], .offset = offset};
    offset += layers_[i].parameter_count();
  }
}

void Model::Initialize(std::uint64_t seed, Real* parameters) const {
  Random random(seed);
  const auto fill = [&random](Real* begin, std::size_t count, double bound) {
    for (std::size_t i = 0; i < count; ++i) begin[i] = static_cast<Real>(bound * (2 * Uniform(&random) - 1));
  };
  fill(parameters, kSymbolCount * shape_.embedding, 0.5);
  for (const Layer& layer : layers_) {
    // Keeps the variance through ReLU (He et al.); the output starts small, near the uniform distribution.
    const double bound = std::sqrt((&layer == &layers_[2] ? 0.5 : 6.0) / static_cast<double>(layer.in));
    fill(parameters + layer.offset, layer.in * layer.out, bound);
    std::fill_n(parameters + layer.offset + layer.in * layer.out, layer.out, Real{0});
  }
}

void Model::Forward(const Real* parameters, const Batch& batch) {
  const std::size_t width = shape_.embedding;
  values_[0].resize(batch.contexts.size() * width);
  for (std::size_t i = 0; i < batch.contexts.size(); ++i) {
    std::copy_n(parameters + batch.contexts[i] * width, width, values_[0].data() + i * width);
  }
  for (std::size_t number = 0; number < 3; ++number) {
    const Layer& layer = layers_[number];
    std::vector<Real>& output = values_[number + 1];
    const Real* const weights = parameters + layer.offset;
    output.resize(batch.size * layer.out);
    for (std::size_t i = 0; i < batch.size; ++i) {
      std::copy_n(weights + layer.in * layer.out, layer.out, output.data() + i * layer.out);
    }
    MultiplyAdd({values_[number].data(), layer.in, 1}, weights, output.data(), batch.size, layer.in, layer.out);
    if (number == 2) return;  // logits
    for (Real& value : output) value = std::max(value, Real{0});
  }
}

double Model::SoftmaxLoss(const Batch& batch) {
  gradients_[3].resize(batch.size * kSymbolCount);
  double loss = 0;
  for (std::size_t i = 0; i < batch.size; ++i) {
    const Real* const logits = values_[3].data() + i * kSymbolCount;
    Real* const gradient = gradients_[3].data() + i * kSymbolCount;
    const Real highest = *std::max_element(logits, logits + kSymbolCount);
    Real sum = 0;
    for (std::size_t j = 0; j < kSymbolCount; ++j) sum += gradient[j] = std::exp(logits[j] - highest);
    for (std::size_t j = 0; j < kSymbolCount; ++j) gradient[j] /= sum * static_cast<Real>(batch.size);
    gradient[batch.targets[i]] -= 1 / static_cast<Real>(batch.size);
    loss += static_cast<double>(highest + std::log(sum) - logits[batch.targets[i]]);
  }
  return loss / static_cast<double>(batch.size);
}

void Model::BackwardLayer(std::size_t number, const Real* parameters, std::size_t batch_size, Real* gradient) {
  const Layer& layer = layers_[number];
  const std::vector<Real>& input = values_[number];
  const Real* const output_gradient = gradients_[number + 1].data();
  Real* const weights_gradient = gradient + layer.offset;
  std::fill_n(weights_gradient, layer.parameter_count(), Real{0});
  MultiplyAdd({input.data(), 1, layer.in}, output_gradient, weights_gradient, layer.in, batch_size, layer.out);
  for (std::size_t i = 0; i < batch_size * layer.out; ++i) {
    weights_gradient[layer.in * layer.out + i % layer.out] += output_gradient[i];
  }
  transposed_.resize(layer.in * layer.out);
  for (std::size_t i = 0; i < layer.in * layer.out; ++i) {
    transposed_[i % layer.out * layer.in + i / layer.out] = parameters[layer.offset + i];
  }
  gradients_[number].assign(input.size(), Real{0});
  MultiplyAdd({output_gradient, layer.out, 1}, transposed_.data(), gradients_[number].data(), batch_size, layer.out,
              layer.in);
  if (number == 0) return;  // embeddings have no activation
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (input[i] <= 0) gradients_[number][i] = 0;
  }
}

double Model::LossAndGradient(const Real* parameters, const Batch& batch, Real* gradient,
                              const OnSliceReady& on_slice_ready) {
  Forward(parameters, batch);
  const double loss = SoftmaxLoss(batch);
  for (const std::size_t number : {2U, 1U}) {
    BackwardLayer(number, parameters, batch.size, gradient);
    on_slice_ready(layers_[number].offset, layers_[number].parameter_count());
  }
  BackwardLayer(0, parameters, batch.size, gradient);
  const std::size_t width = shape_.embedding;
  std::fill_n(gradient, kSymbolCount * width, Real{0});
  for (std::size_t i = 0; i < gradients_[0].size(); ++i) {
    gradient[batch.contexts[i / width] * width + i % width] += gradients_[0][i];
  }
  on_slice_ready(0, layers_[1].offset);  // embedding and first layer together: the embedding is small
  return loss;
}

std::string Model::Sample(const Real* parameters, const std::string& prompt, std::size_t length, std::uint64_t seed) {
  constexpr double kTemperature = 0.6;  // below 1: prefers likely symbols
  const auto is_blank = [](char character) { return character == ' ' || character == '\n'; };
  Random random(seed);
  std::string text = std::string(shape_.context, '\n') + prompt;
  for (std::size_t i = 0; i < length; ++i) {
    Batch batch = {.size = 1, .contexts = {}, .targets = {}};
    std::transform(text.end() - static_cast<std::ptrdiff_t>(shape_.context), text.end(),
                   std::back_inserter(batch.contexts), SymbolOf);
    Forward(parameters, batch);
    std::vector<Real>& logits = values_[3];
    if (is_blank(text.back()) &&
        is_blank(text[text.size() - 2])) {  // a model that is hardly trained prints only blanks
      for (const char blank : {' ', '\n'}) logits[SymbolOf(blank)] = std::numeric_limits<Real>::lowest();
    }
    const Real highest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (Real& logit : logits) sum += logit = static_cast<Real>(std::exp((logit - highest) / kTemperature));
    double left = Uniform(&random) * sum;
    std::uint8_t symbol = 0;
    while (symbol + 1U < kSymbolCount && left >= static_cast<double>(logits[symbol])) {
      left -= static_cast<double>(logits[symbol++]);
    }
    text.push_back(CharacterOf(symbol));
  }
  return text.substr(text.size() - length);
}

}  // namespace train_text
