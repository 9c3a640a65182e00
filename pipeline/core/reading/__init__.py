"""From the options of the source to the pieces of files that are read.

In it: `options`, `discovery` of partitions, `ranges` of offsets and their `split`, the committed
end (`watermark`, `node_watermark`, `transactions`), the steps of a batch read (`reader`) and of a
stream (`stream`), indexes, positions, opening.
Not in it: the decoding of records (records/).
"""
