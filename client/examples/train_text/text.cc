#include "client/examples/train_text/text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace train_text {
namespace fs = std::filesystem;
namespace {

constexpr char kFirstPrintable = ' ';
constexpr char kLastPrintable = '~';
constexpr std::uint8_t kNewline = kSymbolCount - 1;

bool AppendFile(const fs::path& path, std::vector<std::uint8_t>* symbols, std::string* error) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    *error = "cannot read the text " + path.string() + "; give another one with --text";
    return false;
  }
  std::transform(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), std::back_inserter(*symbols),
                 SymbolOf);
  return true;
}

}  // namespace

std::uint8_t SymbolOf(char character) {
  if (character == '\n') return kNewline;
  if (character < kFirstPrintable || character > kLastPrintable) return 0;
  return static_cast<std::uint8_t>(character - kFirstPrintable);
}

char CharacterOf(std::uint8_t symbol) {
  return symbol >= kNewline ? '\n' : static_cast<char>(kFirstPrintable + symbol);
}

std::optional<std::vector<std::uint8_t>> ReadSymbols(const std::string& path, std::string* error) {
  std::vector<fs::path> files;
  std::error_code code;
  if (fs::is_directory(path, code)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, code)) {
      if (!entry.is_symlink(code) && entry.is_regular_file(code)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.emplace_back(path);
  }
  std::vector<std::uint8_t> symbols;
  for (const fs::path& file : files) {
    if (!AppendFile(file, &symbols, error)) return std::nullopt;
  }
  if (symbols.empty()) {
    *error = "the text " + path + " is empty; give another one with --text";
    return std::nullopt;
  }
  return symbols;
}

Shard ShardOf(std::size_t size, std::uint32_t rank, std::uint32_t world) {
  const std::size_t length = size / world;
  const std::size_t longer = size % world;  // the first `longer` shards have one element more
  const std::size_t begin = rank * length + std::min<std::size_t>(rank, longer);
  return {begin, begin + length + (rank < longer ? 1 : 0)};
}

bool ShardOfView::Follow(std::uint64_t epoch, std::uint32_t rank, std::uint32_t world) {
  if (epoch == epoch_) return false;
  epoch_ = epoch;
  shard_ = ShardOf(size_, rank, world);
  return true;
}

std::uint64_t Random::Next() {
  state_ += 0x9E3779B97F4A7C15U;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
  return mixed ^ (mixed >> 31);
}

void DrawBatch(const std::vector<std::uint8_t>& text, Shard shard, std::size_t context, std::size_t size,
               Random* random, Batch* batch) {
  batch->size = size;
  batch->contexts.resize(size * context);
  batch->targets.resize(size);
  const std::size_t places = shard.end - shard.begin - context;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t start = shard.begin + random->Next() % places;
    std::copy_n(text.data() + start, context, batch->contexts.data() + i * context);
    batch->targets[i] = text[start + context];
  }
}

}  // namespace train_text
