/** Node.js keeps small buffers together in one piece of memory. */
const leastFreed = 16 * 1024

/** At once; V8 else stops for a full collection every 64 MiB. Length 0 afterwards; bytes of shared memory stay. */
export function freeBytes(bytes: Uint8Array): void {
  const { buffer, byteLength } = bytes
  if (byteLength < leastFreed || !(buffer instanceof ArrayBuffer) || buffer.byteLength !== byteLength) return
  buffer.transfer(0)
}
