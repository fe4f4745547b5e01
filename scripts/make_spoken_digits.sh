#!/usr/bin/env bash
# Makes a data set for `gradwire train --data wav:OUT_DIR`: the digits "zero" to "nine", spoken by
# espeak-ng's voices at three speeds, in files LABEL_speaker_index.wav of 8 kHz, mono, 16 bit.
#
# Usage: scripts/make_spoken_digits.sh OUT_DIR [VOICE...]
# A VOICE is one of `espeak-ng --voices`, with or without a variant, such as en-us+f3.
# Needs the Debian packages espeak-ng and sox.
set -euo pipefail

if [ $# -lt 1 ]; then
  sed -n '/^# Usage/,/^# Needs/s/^# \?//p' "$0" >&2
  exit 2
fi
for program in espeak-ng sox; do
  command -v "$program" > /dev/null || { echo "$0: needs $program: apt-get install $program" >&2; exit 1; }
done

folder=$1
shift
voices=("$@")
if [ ${#voices[@]} = 0 ]; then
  # Not every accent works with every variant. These ten sound different.
  voices=(en-us en-us+m1 en-us+m3 en-us+m7 en-us+f2 en-us+f4 en-us+f3 en-gb en-gb-scotland en-gb-x-rp)
fi
words=(zero one two three four five six seven eight nine)
speeds=(130 160 190)  # words per minute

mkdir -p "$folder"
spoken=$(mktemp --suffix=.wav)
trap 'rm -f "$spoken"' EXIT

for voice in "${voices[@]}"; do
  speaker=${voice//[^a-zA-Z0-9]/-}
  for index in "${!speeds[@]}"; do
    for word in "${words[@]}"; do
      espeak-ng -v "$voice" -s "${speeds[$index]}" -w "$spoken" "$word"
      # Dither would add noise to silence. The volume is lower because resampling overshoots.
      sox -D -v 0.9 "$spoken" -r 8000 -c 1 -b 16 "$folder/${word}_${speaker}_${index}.wav"
    done
  done
done
echo "$folder: $((${#voices[@]} * ${#speeds[@]} * ${#words[@]})) files"
