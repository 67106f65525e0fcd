/** Fewer bytes are left to the garbage collector, because Node.js keeps small buffers together in one piece of memory. */
const leastFreed = 16 * 1024

/**
 * Gives the memory of these bytes back at once. V8 stops the thread for a full garbage collection after about every 64
 * MiB that buffers have taken, and a few large files are enough for that. Do not use the bytes afterwards: their length
 * is then 0. Bytes that share their memory with others stay as they are.
 */
export function freeBytes(bytes: Uint8Array): void {
  const { buffer, byteLength } = bytes
  if (byteLength < leastFreed || !(buffer instanceof ArrayBuffer) || buffer.byteLength !== byteLength) return
  buffer.transfer(0)
}
