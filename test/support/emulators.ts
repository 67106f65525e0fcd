import { createEmulator } from 'emulate'

/** A stand-in for a service's API, on a free port of this machine. It stores the data that requests change. */
export interface Emulator {
  /** The emulator's address, without a closing slash. */
  readonly url: string
  close(): Promise<void>
}

/** The emulators accept this token. It belongs to an administrator. */
export const emulatorToken = 'test_token_admin'

/** Returns another token of the same administrator. The emulators answer at most 5,000 requests per token and hour. */
export const spareToken = (index: number): string => `test_token_spare_${index}`

/**
 * Starts an emulator of a service. `seed` is the first data of the service, in the emulator's own format. The emulator
 * accepts `emulatorToken`. It also accepts the tokens `spareToken(0)` to `spareToken(spareTokens - 1)`.
 */
export async function startEmulator(
  service: 'github' | 'slack' | 'google' | 'resend',
  seed: Record<string, unknown> = {},
  spareTokens = 0,
): Promise<Emulator> {
  const names = [emulatorToken, ...Array.from({ length: spareTokens }, (_, index) => spareToken(index))]
  const admin = { login: 'admin', scopes: ['repo', 'user', 'admin:org', 'admin:repo_hook'] }
  const tokens = Object.fromEntries(names.map((name) => [name, admin]))
  const { url, close } = await createEmulator({
    service,
    port: 0,
    seed: { [service]: seed, ...(spareTokens > 0 ? { tokens } : {}) },
  })
  return { url, close }
}
