import { mkdtempSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Makes an empty folder. It is in the folder of the test run (run.ts), and is removed with it. */
export const temporaryFolder = (): string => realpathSync(mkdtempSync(join(tmpdir(), 'countersign-test-')))
