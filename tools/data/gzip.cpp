#include "data/gzip.h"

#include <new>

#include "data/data_error.h"

namespace gradwire::data {
namespace {

constexpr std::size_t kBufferBytes = 1 << 18;
constexpr int kOnlyGzip = 16 + MAX_WBITS;  // zlib then refuses raw and zlib streams

}  // namespace

GzipSource::GzipSource(const std::string& path)
    : ByteSource(path + " (unpacked)"), packed_(path), buffer_(kBufferBytes) {
  if (inflateInit2(&stream_, kOnlyGzip) != Z_OK) throw std::bad_alloc();
}

GzipSource::~GzipSource() { inflateEnd(&stream_); }

void GzipSource::refill() {
  stream_.next_in = buffer_.data();
  stream_.avail_in = static_cast<uInt>(packed_.read(buffer_));
  packed_end_ += stream_.avail_in;
}

void GzipSource::unpack() {
  if (stream_.avail_in == 0) refill();
  if (stream_.avail_in == 0) {
    throw DataError(packed_.name(), packed_end_, "the rest of the gzip stream", "the end");
  }
  const int status = inflate(&stream_, Z_NO_FLUSH);
  ended_ = status == Z_STREAM_END;
  if (ended_ || status == Z_OK) return;
  throw DataError(packed_.name(), packed_offset(), "an undamaged gzip stream",
                  stream_.msg != nullptr ? stream_.msg : "damage");
}

std::size_t GzipSource::read(std::span<std::uint8_t> target) {
  stream_.next_out = target.data();
  stream_.avail_out = static_cast<uInt>(target.size());  // no caller takes 4 GB at once
  while (!ended_ && stream_.avail_out > 0) unpack();
  if (ended_ && stream_.avail_in == 0) refill();
  if (ended_ && stream_.avail_in > 0) {
    throw DataError(packed_.name(), packed_offset(), "the end after the gzip stream", "more bytes");
  }
  return target.size() - stream_.avail_out;
}

}  // namespace gradwire::data
