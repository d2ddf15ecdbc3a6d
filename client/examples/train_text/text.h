// The training text: read from disk, mapped to 96 symbols, cut into shards, sampled as batches.
//
// A symbol is one of the 95 printable ASCII characters or the newline; every other byte becomes a space. So the
// alphabet does not depend on the text. Plain values, no threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace train_text {

inline constexpr std::size_t kSymbolCount = 96;

std::uint8_t SymbolOf(char character);
char CharacterOf(std::uint8_t symbol);

// The file at `path`, or all regular files of the directory `path` (no links), concatenated in sorted order. Returns
// nullopt and a sentence in `error` if there is nothing to read.
std::optional<std::vector<std::uint8_t>> ReadSymbols(const std::string& path, std::string* error);

// Elements [begin, end) of a text.
struct Shard {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Contiguous slices that cover `size` elements and differ in length by at most one: each view redistributes the text,
// so that none of it is left out or read twice. REQUIRES: rank < world.
Shard ShardOf(std::size_t size, std::uint32_t rank, std::uint32_t world);

// The same on every machine, unlike the standard distributions.
using Random = std::mt19937_64;
inline double Uniform(Random* random) { return static_cast<double>((*random)() >> 11) * 0x1.0p-53; }  // in [0, 1)

// `size` examples: contexts holds `size` rows of `context` symbols, targets the symbol that follows each row.
struct Batch {
  std::size_t size = 0;
  std::vector<std::uint8_t> contexts;
  std::vector<std::uint8_t> targets;
};

// Draws examples from random places of the shard. REQUIRES: shard.end - shard.begin > context.
void DrawBatch(const std::vector<std::uint8_t>& text, Shard shard, std::size_t context, std::size_t size,
               Random* random, Batch* batch);

}  // namespace train_text
