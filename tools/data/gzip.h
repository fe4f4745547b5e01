#pragma once

#include <zlib.h>

#include <string>
#include <vector>

#include "data/byte_source.h"

namespace gradwire::data {

// The content of a gzip file. Unlike zlib's gzread it refuses files that are not gzip and files
// that go on after the compressed stream. Offsets in these errors count bytes of the packed file;
// those in errors of ByteSource count bytes of the content, which the name says.
class GzipSource : public ByteSource {
 public:
  explicit GzipSource(const std::string& path);
  ~GzipSource() override;
  std::size_t read(std::span<std::uint8_t> target) override;

 private:
  void refill();
  void unpack();
  std::size_t packed_offset() const { return packed_end_ - stream_.avail_in; }

  FileSource packed_;
  std::vector<std::uint8_t> buffer_;
  std::size_t packed_end_ = 0;  // offset in the packed file of the buffer's end
  z_stream stream_{};
  bool ended_ = false;
};

}  // namespace gradwire::data
