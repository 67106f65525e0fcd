import { readFileSync, writeFileSync } from 'node:fs'

/*
 * Checks that `npm ci` can work everywhere. Versions in package.json must be exact, and package-lock.json must list the
 * optional packages of every platform. When npm writes the lock file, it leaves out optional packages that the registry
 * does not have. `npm ci` then refuses the lock file on every machine. `--fix` adds these packages. An entry needs only
 * a version and a platform, because npm skips packages for other platforms. The name of the package contains the
 * platform. The version comes from the entry of the package that lists the optional package.
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

/**
 * Returns whether the lock file has the package `name` in a folder where Node looks for it. `place` is the path of the
 * package that imports `name`.
 */
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
