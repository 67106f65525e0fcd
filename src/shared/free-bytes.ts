/** `freeBytes` does nothing for fewer bytes, because Node.js keeps small buffers together in one piece of memory. */
const leastFreed = 16 * 1024

/**
 * Gives the memory of these bytes back at once. Otherwise a few large files are enough to cause a full garbage
 * collection: V8 stops the thread for a collection each time buffers have taken about 64 MiB. Do not use the bytes
 * afterwards, because their length is then 0. Bytes that share their memory with other bytes stay as they are.
 */
export function freeBytes(bytes: Uint8Array): void {
  const { buffer, byteLength } = bytes
  if (byteLength < leastFreed || !(buffer instanceof ArrayBuffer) || buffer.byteLength !== byteLength) return
  buffer.transfer(0)
}
