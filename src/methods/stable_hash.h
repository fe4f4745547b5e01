#pragma once

#include <cstdint>
#include <string_view>

namespace gradwire {

// FNV-1a: the same on every machine and with every standard library, unlike std::hash.
constexpr uint64_t stable_hash(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char character : text) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 1099511628211ULL;
  }
  return hash;
}

}  // namespace gradwire
