import { readFileSync, writeFileSync } from 'node:fs'

/*
 * Fails unless `npm ci` can work everywhere: versions in package.json are exact, and package-lock.json lists the optional
 * packages of every platform. npm leaves out those that the registry at hand does not carry, and `npm ci` then refuses
 * the lock file on every machine. `--fix` adds them: npm skips what is for another platform, so that version and
 * platform, both told by the name and by whoever asks for it, are enough.
 */

interface Entry {
  readonly version?: string
  readonly dev?: boolean
  readonly license?: string
  readonly engines?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}
interface Lock {
  packages: Record<string, Entry>
}

const systems = ['darwin', 'win32', 'linux', 'freebsd', 'android', 'openharmony']
const processors = ['arm64', 'x64', 'ppc64', 's390x', 'riscv64', 'ia32', 'loong64']

const lockPath = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(lockPath, 'utf8')) as Lock
const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as Readonly<
  Record<'dependencies' | 'devDependencies', Readonly<Record<string, string>>>
>

/** Whether `name` is found from the package at `place`, by Node's rules. */
function isListed(name: string, place: string): boolean {
  for (let from = place; ; from = from.slice(0, from.lastIndexOf('node_modules/')).replace(/\/$/, '')) {
    if (lock.packages[`${from === '' ? '' : `${from}/`}node_modules/${name}`] !== undefined) return true
    if (from === '') return false
  }
}

function platformEntry(name: string, version: string, parent: Entry): Entry & Record<string, unknown> {
  const os = systems.find((each) => name.includes(each))
  if (os === undefined) throw new Error(`\`${name}\` names no platform: add it with npm install`)
  const libc = name.includes('musl') ? 'musl' : 'glibc'
  return {
    version,
    cpu: [processors.find((each) => name.includes(each)) ?? 'arm'],
    ...(parent.dev === true ? { dev: true } : {}),
    ...(os === 'linux' ? { libc: [libc] } : {}),
    ...(parent.license === undefined ? {} : { license: parent.license }),
    optional: true,
    os: [os],
    ...(parent.engines === undefined ? {} : { engines: parent.engines }),
  }
}

const problems: string[] = []
for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
  if (!/^(npm:.+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
    problems.push(`${name}: \`${version}\` is not exact`)
}
const missing: Record<string, Entry> = {}
for (const [place, entry] of Object.entries(lock.packages)) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    if (!isListed(name, place)) missing[`node_modules/${name}`] = platformEntry(name, version, entry)
  }
}
if (process.argv.includes('--fix')) {
  const entries = Object.entries({ ...lock.packages, ...missing })
  lock.packages = Object.fromEntries(entries.toSorted(([a], [b]) => a.localeCompare(b, 'en')))
  writeFileSync(lockPath, `${JSON.stringify(lock, null, 2)}\n`)
} else {
  for (const place of Object.keys(missing)) problems.push(`${place} is not in package-lock.json`)
}
if (problems.length > 0) {
  process.stderr.write(`${problems.join('\n')}\nrun \`node scripts/lockfile.ts --fix\`\n`)
  process.exitCode = 1
}
