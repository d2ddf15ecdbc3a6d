#include "client/examples/train_text/text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace train_text {
namespace fs = std::filesystem;

constexpr std::uint8_t kNewline = kSymbolCount - 1;

std::uint8_t SymbolOf(char character) {
  if (character == '\n') return kNewline;
  return character < ' ' || character > '~' ? 0 : static_cast<std::uint8_t>(character - ' ');
}

char CharacterOf(std::uint8_t symbol) { return symbol >= kNewline ? '\n' : static_cast<char>(' ' + symbol); }

std::optional<std::vector<std::uint8_t>> ReadSymbols(const std::string& path, std::string* error) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, code)) {
    if (!entry.is_symlink(code) && entry.is_regular_file(code)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (!fs::is_directory(path, code)) files = {path};
  std::vector<std::uint8_t> symbols;
  for (const fs::path& each : files) {
    std::ifstream file(each, std::ios::binary);
    if (!file) {
      *error = "cannot read the text " + each.string() + "; give another one with --text";
      return std::nullopt;
    }
    std::transform(std::istreambuf_iterator<char>(file), {}, std::back_inserter(symbols), SymbolOf);
  }
  if (!symbols.empty()) return symbols;
  *error = "the text " + path + " is empty; give another one with --text";
  return std::nullopt;
}

Shard ShardOf(std::size_t size, std::uint32_t rank, std::uint32_t world) {
  const std::size_t length = size / world;
  const std::size_t longer = size % world;  // the first `longer` shards have one element more
  const std::size_t begin = rank * length + std::min<std::size_t>(rank, longer);
  return {begin, begin + length + (rank < longer ? 1 : 0)};
}

void DrawBatch(const std::vector<std::uint8_t>& text, Shard shard, std::size_t context, std::size_t size,
               Random* random, Batch* batch) {
  batch->size = size;
  batch->contexts.resize(size * context);
  batch->targets.resize(size);
  const std::size_t places = shard.end - shard.begin - context;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t start = shard.begin + (*random)() % places;
    std::copy_n(text.data() + start, context, batch->contexts.data() + i * context);
    batch->targets[i] = text[start + context];
  }
}

}  // namespace train_text
