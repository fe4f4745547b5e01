#pragma once

// Sparse contributions are added to a parameter chunk by chunk (see wire/positions.h), so that a
// chunk of the result is zeroed, takes up what every worker has for it and leaves the cache once.
// Chunks are shared out to threads by fixed *tasks*, so nothing depends on the number of threads.

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "wire/positions.h"

namespace gradwire {

// A million elements or so: worth waking a thread up for.
inline constexpr uint64_t kChunksPerTask = 16;

inline uint64_t tasks_of(const wire::PositionsShape& shape) {
  return (shape.chunks() + kChunksPerTask - 1) / kChunksPerTask;
}

// Calls run(task, first chunk, end of chunks).
template <class Run>
void run_tasks(const wire::PositionsShape& shape, const Run& run) {
  at::parallel_for(0, static_cast<int64_t>(tasks_of(shape)), 1, [&](int64_t begin, int64_t end) {
    for (auto task = static_cast<uint64_t>(begin); task < static_cast<uint64_t>(end); ++task) {
      run(task, task * kChunksPerTask, std::min((task + 1) * kChunksPerTask, shape.chunks()));
    }
  });
}

// A chunk's place in its parameter.
struct ChunkRange {
  size_t begin;
  size_t length;

  template <typename T>
  std::span<T> of(std::span<T> parameter) const {
    return parameter.subspan(begin, length);
  }
};

inline ChunkRange range_of(const wire::PositionsShape& shape, uint64_t chunk) {
  return {static_cast<size_t>(chunk * shape.chunk_length), shape.length_of(chunk)};
}

// A place in a section, between two chunks, to start decoding from.
struct SectionPlace {
  wire::PositionsReader reader;
  size_t entries = 0;  // before this place
};

// For every task, its place in every section: [task * sections.size() + section].
inline std::vector<SectionPlace> places_of(const wire::PositionsShape& shape,
                                           std::span<const wire::PositionsReader> sections) {
  std::vector<SectionPlace> places(tasks_of(shape) * sections.size());
  for (size_t section = 0; section < sections.size(); ++section) {
    SectionPlace place{sections[section]};
    for (uint64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
      if (chunk % kChunksPerTask == 0) {
        places[chunk / kChunksPerTask * sections.size() + section] = place;
      }
      place.entries += place.reader.skip();
    }
  }
  return places;
}

// For every chunk of the parameter: begin(range), then for each section in order
// add(section, range, entries, number of the section's entries before them).
template <class Begin, class Add>
void visit_chunks(const wire::PositionsShape& shape,
                  std::span<const wire::PositionsReader> sections, const Begin& begin,
                  const Add& add) {
  const std::vector<SectionPlace> places = places_of(shape, sections);
  run_tasks(shape, [&](uint64_t task, uint64_t first, uint64_t end) {
    const auto own = places.begin() + static_cast<int64_t>(task * sections.size());
    std::vector<SectionPlace> at(own, own + static_cast<int64_t>(sections.size()));
    const size_t room = shape.length_of(first);
    const auto scratch = std::make_unique_for_overwrite<uint32_t[]>(room);
    for (uint64_t chunk = first; chunk < end; ++chunk) {
      const ChunkRange range = range_of(shape, chunk);
      begin(range);
      for (size_t section = 0; section < at.size(); ++section) {
        const auto entries = at[section].reader.next({scratch.get(), room});
        add(section, range, entries, at[section].entries);
        at[section].entries += entries.size();
      }
    }
  });
}

}  // namespace gradwire
