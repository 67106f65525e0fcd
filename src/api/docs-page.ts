import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import express, { type Response, type Router } from 'express'

/*
 * The API's docs page: Swagger UI, served from its npm package. The page and its files come from this service. The
 * page's Content-Security-Policy stops the browser from contacting any other host.
 */

const manifest = createRequire(import.meta.url).resolve('swagger-ui-dist/package.json')
const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
/** The files that the page loads. Browsers may keep these files, because the address of a file contains the version. */
const files = ['swagger-ui.css', 'swagger-ui-bundle.js'] as const
const place = `/docs/swagger-ui-${version}`

/** The address of openapi.json is relative, because the page answers at `/docs`, `/v1/docs` and `/api/v1/docs`. */
const script = `SwaggerUIBundle({
  url: 'openapi.json', dom_id: '#docs', deepLinking: true, docExpansion: 'list', filter: true,
  showExtensions: true, defaultModelsExpandDepth: 0, displayRequestDuration: true, validatorUrl: null,
})`
const style = [
  'body{margin:0}.swagger-ui .info{margin:1.5rem 0}noscript{display:block;margin:2rem}',
  // On narrow screens, only the table of headers (`.headers-wrapper`) scrolls, and not the whole page. The column of
  // links is hidden, because no answer has links.
  '.swagger-ui .headers-wrapper{overflow-x:auto;max-width:calc(100vw - 9rem)}',
  '.swagger-ui .response-col_links{display:none}',
].join('')

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`
const policy = [
  "default-src 'none'",
  `script-src 'self' ${hashOf(script)}`,
  `style-src 'self' ${hashOf(style)}`,
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Countersign API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${place}/swagger-ui.css"><style>${style}</style></head><body>
<noscript>This page needs JavaScript. It shows <a href="openapi.json">openapi.json</a>.</noscript>
<main id="docs"></main>
<script src="${place}/swagger-ui-bundle.js"></script><script>${script}</script>
</body></html>
`

export function sendDocsPage(response: Response): void {
  response.setHeader('Content-Type', 'text/html; charset=utf-8')
  response.setHeader('Content-Security-Policy', policy)
  response.end(page)
}

/** Serves the files that the page loads. They have only one address, without the prefixes `/v1` and `/api/v1`. */
export function docsFiles(): Router {
  const router = express.Router({ caseSensitive: true, strict: true })
  for (const file of files) {
    router.get(`${place}/${file}`, (_request, response) => {
      response.setHeader('Cache-Control', 'public, max-age=31536000, immutable')
      // The path is relative to `root`. Express would refuse an absolute path if the name of one of its folders begins
      // with a dot.
      response.sendFile(file, { root: dirname(manifest) })
    })
  }
  return router
}
