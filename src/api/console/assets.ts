import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { buildSync } from 'esbuild'
import express, { type Router } from 'express'

/* The style sheet and the script of the console's pages. */

const fileOf = (place: string): string => fileURLToPath(new URL(`../../console/${place}`, import.meta.url))

/** A later part can override an earlier one. */
const styles = [
  'base',
  'layout',
  'header',
  'forms',
  'badges',
  'values',
  'inbox',
  'decide',
  'diff',
  'picture',
  'plot',
  'account',
  'workflows',
  'documents',
] as const

/** `page` is of every page, and `editor` of those alone that name it. */
export const scripts = ['page', 'editor'] as const
type ScriptName = (typeof scripts)[number]

/** Its name in the build. Without a build, it is bundled when the API starts. */
export const builtScript = (name: ScriptName): string => `${name}.bundle.js`

/** The script with all that it imports, the components of islands among them. */
export function bundleScript(name: ScriptName): string {
  const { outputFiles } = buildSync({
    entryPoints: [fileOf(`browser/${name}.ts`)],
    bundle: true,
    write: false,
    minify: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'silent',
  })
  return outputFiles[0]?.text ?? ''
}

const script = (name: ScriptName): string =>
  import.meta.url.endsWith('.ts') ? bundleScript(name) : readFileSync(fileOf(builtScript(name)), 'utf8')

export interface Assets {
  readonly style: string
  readonly script: string
  readonly editor: string
  readonly router: Router
}

export function consoleAssets(): Assets {
  const style = styles.map((name) => readFileSync(fileOf(`style/${name}.css`), 'utf8')).join('\n')
  const router = express.Router({ caseSensitive: true, strict: true })
  const serve = (text: string, ending: string, type: string): string => {
    const bytes = Buffer.from(text)
    const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
    const path = `/console/assets/${hash}.${ending}`
    const packed = gzipSync(bytes)
    router.get(path, (request, response) => {
      const isPacked = request.acceptsEncodings('gzip') !== false
      response.setHeader('Content-Type', `${type}; charset=utf-8`)
      response.setHeader('Cache-Control', 'public, max-age=31536000, immutable')
      response.setHeader('Vary', 'Accept-Encoding')
      if (isPacked) response.setHeader('Content-Encoding', 'gzip')
      response.end(isPacked ? packed : bytes)
    })
    return path
  }
  const scriptOf = (name: ScriptName): string => serve(script(name), 'js', 'text/javascript')
  return {
    style: serve(style, 'css', 'text/css'),
    script: scriptOf('page'),
    editor: scriptOf('editor'),
    router,
  }
}
