import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from '@jest/reporters'
import { secondsOf } from './durations.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const expected = ({ path }: Test): number => secondsOf(relative(root, path))

/** The files of this run, for the reporter. */
export let planned: readonly Test[] = []

/** Starts the longest test files first, so that no worker is alone with one at the end. */
export default class LongestFirst {
  sort(tests: readonly Test[]): readonly Test[] {
    planned = tests.toSorted((a, b) => expected(b) - expected(a) || a.path.localeCompare(b.path))
    return planned
  }

  /** Jest would keep how long files took in its cache, which a fresh clone does not have. */
  cacheResults(): void {}
}
