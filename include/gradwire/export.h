#pragma once

// Everything is compiled with hidden visibility; what users call is marked with this.
#define GRADWIRE_EXPORT __attribute__((visibility("default")))
