# Draws the loss of a train_text log (one JSON object a line) as an area of block characters.
# Variables: `marked` (a step; a caret is put below it), `height` and `width` in characters.

function field(name,    at, rest) {
  at = index($0, "\"" name "\": ")
  if (at == 0) return 0
  rest = substr($0, at + length(name) + 4)
  return rest + 0
}

{
  loss[NR] = field("loss")
  seconds += field("ms") / 1000
  step = field("step")
  if (marked > 0 && step >= marked && mark == 0) mark = NR
}

END {
  if (NR == 0) exit 1
  if (height == 0) height = 12
  if (width == 0) width = 64
  if (NR < width) width = NR
  blocks = split("▁ ▂ ▃ ▄ ▅ ▆ ▇ █", block, " ")
  for (i = 1; i <= NR; i++) {
    column = int((i - 1) * width / NR)
    sum[column] += loss[i]
    count[column]++
  }
  low = high = sum[0] / count[0]
  for (c = 0; c < width; c++) {
    mean[c] = sum[c] / count[c]
    if (mean[c] < low) low = mean[c]
    if (mean[c] > high) high = mean[c]
  }
  if (high == low) high = low + 1
  for (row = height; row >= 1; row--) {
    line = ""
    for (c = 0; c < width; c++) {
      eighths = int(1 + (mean[c] - low) / (high - low) * (height * blocks - 1)) - (row - 1) * blocks
      line = line (eighths <= 0 ? " " : eighths >= blocks ? block[blocks] : block[eighths])
    }
    label = row == height ? sprintf("%6.2f", high) : row == 1 ? sprintf("%6.2f", low) : "      "
    print "  " label " │" line
  }
  line = ""
  for (c = 0; c < width; c++) line = line "─"
  print "         └" line
  if (mark > 0) {
    column = int((mark - 1) * width / NR)
    printf "%*s^ a daemon was killed (step %d)\n", column + 10, "", marked
  }
  printf "          %d steps, %.1f s; loss in nats a character, average of all ranks\n", step, seconds
}
