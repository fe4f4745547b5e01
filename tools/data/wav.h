#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradwire::data {

// The samples of a WAV file with 8 kHz, mono, 16-bit PCM, of at most about a minute. Its chunks may
// come in any order, and unknown ones are skipped. Anything else that is unexpected is a DataError.
std::vector<std::int16_t> read_wav(const std::string& path);

}  // namespace gradwire::data
