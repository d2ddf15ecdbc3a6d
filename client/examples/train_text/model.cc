#include "client/examples/train_text/model.h"

#include <algorithm>
#include <cmath>
#include <limits>

// The loops below vectorise; on x86 they are compiled twice, and the faster version is chosen at load time. Ranks on
// different processors may round differently here, but stay equal, because all apply the same all-reduced gradient.
// Not with sanitizers, which the choice would crash: it runs before their initialisation.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define VECTORISED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define VECTORISED
#endif

namespace train_text {
namespace {

// Eight elements that the compiler keeps in one register, or in several narrow ones.
constexpr std::size_t kLanes = 8;
using Lanes __attribute__((vector_size(kLanes * sizeof(Real)), aligned(alignof(Real)), may_alias)) = Real;

constexpr std::size_t kRows = 4;
constexpr std::size_t kColumns = 2 * kLanes;

// A matrix with strides, so that a transposed one needs no copy.
struct Strided {
  const Real* data;
  std::size_t row;
  std::size_t column;
};

// c += a * b, where a is m x k, b and c are row-major k x n and m x n.
// A tile of c is kept in registers while k runs: kRows * kColumns multiply-adds for every kRows + kColumns loads.
VECTORISED void MultiplyAdd(Strided a, const Real* b, Real* c, std::size_t m, std::size_t k, std::size_t n) {
  const std::size_t m_tiled = m - m % kRows;
  const std::size_t n_tiled = n - n % kColumns;
  for (std::size_t j = 0; j < n_tiled; j += kColumns) {
    for (std::size_t i = 0; i < m_tiled; i += kRows) {
      Lanes left[kRows] = {};
      Lanes right[kRows] = {};
      for (std::size_t p = 0; p < k; ++p) {
        const Real* from = a.data + i * a.row + p * a.column;
        const Lanes* line = reinterpret_cast<const Lanes*>(b + p * n + j);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRows; ++r) {
          left[r] += from[r * a.row] * line[0];
          right[r] += from[r * a.row] * line[1];
        }
      }
      for (std::size_t r = 0; r < kRows; ++r) {
        Lanes* to = reinterpret_cast<Lanes*>(c + (i + r) * n + j);
        to[0] += left[r];
        to[1] += right[r];
      }
    }
  }
  for (std::size_t i = 0; i < m; ++i) {  // remainder outside the tiles
    for (std::size_t p = 0; p < k; ++p) {
      const Real factor = a.data[i * a.row + p * a.column];
      for (std::size_t j = i < m_tiled ? n_tiled : 0; j < n; ++j) c[i * n + j] += factor * b[p * n + j];
    }
  }
}

void Transpose(const Real* from, std::size_t rows, std::size_t columns, Real* to) {
  constexpr std::size_t kBlock = 16;
  for (std::size_t i = 0; i < rows; i += kBlock) {
    for (std::size_t j = 0; j < columns; j += kBlock) {
      for (std::size_t r = i; r < std::min(i + kBlock, rows); ++r) {
        for (std::size_t s = j; s < std::min(j + kBlock, columns); ++s) to[s * rows + r] = from[r * columns + s];
      }
    }
  }
}

}  // namespace

Model::Model(const Shape& shape) : shape_(shape) {
  const std::size_t widths[] = {shape.context * shape.embedding, shape.hidden1, shape.hidden2, kSymbolCount};
  std::size_t offset = kSymbolCount * shape.embedding;
  for (std::size_t i = 0; i < 3; ++i) {
    layers_[i].in = widths[i];
    layers_[i].out = widths[i + 1];
    layers_[i].offset = offset;
    offset += layers_[i].parameter_count();
  }
  parameter_count_ = offset;
}

void Model::Initialize(std::uint64_t seed, Real* parameters) const {
  Random random(seed);
  const auto fill = [&random](Real* begin, std::size_t count, double bound) {
    for (std::size_t i = 0; i < count; ++i) begin[i] = static_cast<Real>(bound * (2 * random.Uniform() - 1));
  };
  fill(parameters, kSymbolCount * shape_.embedding, 0.5);
  for (const Layer& layer : layers_) {
    const bool is_output = &layer == &layers_[2];
    // Keeps the variance through ReLU (He et al.); the output starts small, near the uniform distribution.
    const double bound = std::sqrt((is_output ? 0.5 : 6.0) / static_cast<double>(layer.in));
    fill(parameters + layer.offset, layer.in * layer.out, bound);
    std::fill_n(parameters + layer.offset + layer.in * layer.out, layer.out, Real{0});
  }
}

void Model::ForwardLayer(const Real* parameters, const std::vector<Real>& input, std::size_t batch_size, Layer* layer) {
  const Real* weights = parameters + layer->offset;
  const Real* bias = weights + layer->in * layer->out;
  layer->output.resize(batch_size * layer->out);
  for (std::size_t i = 0; i < batch_size; ++i) std::copy_n(bias, layer->out, layer->output.data() + i * layer->out);
  MultiplyAdd({input.data(), layer->in, 1}, weights, layer->output.data(), batch_size, layer->in, layer->out);
  if (layer == &layers_[2]) return;  // logits
  for (Real& value : layer->output) value = std::max(value, Real{0});
}

void Model::Forward(const Real* parameters, const Batch& batch) {
  const std::size_t width = shape_.embedding;
  input_.resize(batch.size * shape_.context * width);
  for (std::size_t i = 0; i < batch.contexts.size(); ++i) {
    std::copy_n(parameters + batch.contexts[i] * width, width, input_.data() + i * width);
  }
  ForwardLayer(parameters, input_, batch.size, &layers_[0]);
  ForwardLayer(parameters, layers_[0].output, batch.size, &layers_[1]);
  ForwardLayer(parameters, layers_[1].output, batch.size, &layers_[2]);
}

double Model::SoftmaxLoss(const Batch& batch) {
  Layer& layer = layers_[2];
  layer.output_gradient.resize(layer.output.size());
  double loss = 0;
  for (std::size_t i = 0; i < batch.size; ++i) {
    const Real* logits = layer.output.data() + i * layer.out;
    Real* gradient = layer.output_gradient.data() + i * layer.out;
    const Real highest = *std::max_element(logits, logits + layer.out);
    Real sum = 0;
    for (std::size_t j = 0; j < layer.out; ++j) {
      gradient[j] = std::exp(logits[j] - highest);
      sum += gradient[j];
    }
    const Real scale = 1 / (sum * static_cast<Real>(batch.size));
    for (std::size_t j = 0; j < layer.out; ++j) gradient[j] *= scale;
    const std::uint8_t target = batch.targets[i];
    gradient[target] -= 1 / static_cast<Real>(batch.size);
    loss += static_cast<double>(highest + std::log(sum) - logits[target]);
  }
  return loss / static_cast<double>(batch.size);
}

void Model::BackwardLayer(const Real* parameters, const std::vector<Real>& input, std::size_t batch_size,
                          const Layer& layer, Real* gradient, std::vector<Real>* input_gradient) {
  const Real* output_gradient = layer.output_gradient.data();
  Real* weights_gradient = gradient + layer.offset;
  Real* bias_gradient = weights_gradient + layer.in * layer.out;
  std::fill_n(weights_gradient, layer.parameter_count(), Real{0});
  MultiplyAdd({input.data(), 1, layer.in}, output_gradient, weights_gradient, layer.in, batch_size, layer.out);
  for (std::size_t i = 0; i < batch_size; ++i) {
    for (std::size_t j = 0; j < layer.out; ++j) bias_gradient[j] += output_gradient[i * layer.out + j];
  }
  transposed_.resize(layer.in * layer.out);
  Transpose(parameters + layer.offset, layer.in, layer.out, transposed_.data());
  input_gradient->assign(batch_size * layer.in, Real{0});
  MultiplyAdd({output_gradient, layer.out, 1}, transposed_.data(), input_gradient->data(), batch_size, layer.out,
              layer.in);
  if (&layer == &layers_[0]) return;  // embeddings have no activation
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (input[i] <= 0) (*input_gradient)[i] = 0;
  }
}

void Model::BackwardEmbedding(const Batch& batch, Real* gradient) {
  const std::size_t width = shape_.embedding;
  std::fill_n(gradient, kSymbolCount * width, Real{0});
  for (std::size_t i = 0; i < batch.contexts.size(); ++i) {
    Real* row = gradient + batch.contexts[i] * width;
    for (std::size_t j = 0; j < width; ++j) row[j] += input_gradient_[i * width + j];
  }
}

double Model::LossAndGradient(const Real* parameters, const Batch& batch, Real* gradient,
                              const OnSliceReady& on_slice_ready) {
  Forward(parameters, batch);
  const double loss = SoftmaxLoss(batch);
  BackwardLayer(parameters, layers_[1].output, batch.size, layers_[2], gradient, &layers_[1].output_gradient);
  on_slice_ready(layers_[2].offset, layers_[2].parameter_count());
  BackwardLayer(parameters, layers_[0].output, batch.size, layers_[1], gradient, &layers_[0].output_gradient);
  on_slice_ready(layers_[1].offset, layers_[1].parameter_count());
  BackwardLayer(parameters, input_, batch.size, layers_[0], gradient, &input_gradient_);
  BackwardEmbedding(batch, gradient);
  on_slice_ready(0, layers_[1].offset);  // embedding and first layer together: the embedding is small
  return loss;
}

std::string Model::Sample(const Real* parameters, const std::string& prompt, std::size_t length, std::uint64_t seed) {
  constexpr double kTemperature = 0.6;   // below 1: prefers likely symbols
  constexpr std::size_t kBlanksMax = 2;  // in a row: a model that is hardly trained would print only blanks
  Batch batch;
  batch.size = 1;
  batch.contexts.assign(shape_.context, SymbolOf('\n'));
  std::size_t blanks = 0;  // written in a row
  const auto push = [&](std::uint8_t symbol) {
    std::rotate(batch.contexts.begin(), batch.contexts.begin() + 1, batch.contexts.end());
    batch.contexts.back() = symbol;
    blanks = IsBlank(symbol) ? blanks + 1 : 0;
  };
  for (const char character : prompt) push(SymbolOf(character));
  Random random(seed);
  std::string text;
  for (std::size_t i = 0; i < length; ++i) {
    Forward(parameters, batch);
    const std::vector<Real>& logits = layers_[2].output;
    const auto may = [&](std::size_t symbol) { return blanks < kBlanksMax || !IsBlank(symbol); };
    Real highest = std::numeric_limits<Real>::lowest();
    for (std::size_t j = 0; j < kSymbolCount; ++j) highest = may(j) ? std::max(highest, logits[j]) : highest;
    double weights[kSymbolCount];
    double sum = 0;
    for (std::size_t j = 0; j < kSymbolCount; ++j) {
      weights[j] = may(j) ? std::exp(static_cast<double>(logits[j] - highest) / kTemperature) : 0;
      sum += weights[j];
    }
    double left = random.Uniform() * sum;
    std::uint8_t symbol = 0;
    while (symbol + 1U < kSymbolCount && left >= weights[symbol]) left -= weights[symbol++];
    push(symbol);
    text.push_back(CharacterOf(symbol));
  }
  return text;
}

}  // namespace train_text
