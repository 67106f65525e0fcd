import { readFileSync } from 'node:fs'

/* Words for the descriptions of stand-ins. */

const { dependencies, devDependencies } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as Readonly<Record<'dependencies' | 'devDependencies', Readonly<Record<string, string>>>>

/** Returns the name of a package with its version. */
export const named = (name: string): string =>
  `\`${name}\` ${dependencies[name] ?? devDependencies[name] ?? 'is missing'}`

export const idsOf = (all: readonly { readonly id: string }[]): string =>
  all.map(({ id }) => `\`${id}\``).join(', ')
