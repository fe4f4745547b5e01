#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradwire::data {

// The samples of a WAV file: 8 kHz, mono, 16-bit PCM, at most about a minute. Its chunks may come
// in any order and unknown ones are skipped; anything else about the file that is not as it should
// be is a DataError.
std::vector<std::int16_t> read_wav(const std::string& path);

}  // namespace gradwire::data
