import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { z } from 'zod'
import express, { type Response, type Router } from 'express'
import type { Context } from '../../governance/context.ts'
import { ApiError } from '../errors.ts'
import { openApiDocument } from '../openapi.ts'
import { tagged, type Route } from '../route.ts'
import { workflowSchema } from '../workflow-schema.ts'

/* Swagger UI, served from its npm package. Its policy stops the browser from contacting any other host. */

const manifest = createRequire(import.meta.url).resolve('swagger-ui-dist/package.json')
const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
/** Their addresses contain the version, so browsers may keep them. */
const files = ['swagger-ui.css', 'swagger-ui-bundle.js'] as const
const place = `/docs/swagger-ui-${version}`

/**
 * A relative address, because the page answers at `/docs`, `/v1/docs` and `/api/v1/docs`. The sections are folded: of
 * about 135 unfolded routes, Swagger UI 5.35 shows only the first few, without an error.
 */
const script = `SwaggerUIBundle({
  url: 'openapi.json', dom_id: '#docs', deepLinking: true, docExpansion: 'none', filter: true,
  showExtensions: true, defaultModelsExpandDepth: 0, displayRequestDuration: true, validatorUrl: null,
})`
const style = [
  'body{margin:0}.swagger-ui .info{margin:1.5rem 0}noscript{display:block;margin:2rem}',
  // On narrow screens only the table of headers scrolls. No answer has links.
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

function sendDocsPage(response: Response): void {
  response.setHeader('Content-Type', 'text/html; charset=utf-8')
  response.setHeader('Content-Security-Policy', policy)
  response.end(page)
}

export function docsFiles(): Router {
  const router = express.Router({ caseSensitive: true, strict: true })
  for (const file of files) {
    router.get(`${place}/${file}`, (_request, response) => {
      response.setHeader('Cache-Control', 'public, max-age=31536000, immutable')
      // Express would refuse an absolute path if one of its folders begins with a dot.
      response.sendFile(file, { root: dirname(manifest) })
    })
  }
  return router
}

const { publicRoute } = tagged('Service')

/** They describe the API, themselves included, and definitions. `ENABLE_DOCS=false` turns them off. */
export function docsRoutes(all: () => readonly Route[]) {
  let document: object | undefined
  let schema: object | undefined
  return [
    publicRoute({
      key: 'GET /openapi.json',
      summary: 'The OpenAPI description of this service',
      responses: { 200: z.looseObject({ openapi: z.string(), paths: z.looseObject({}) }) },
      async open(context) {
        requireDocs(context)
        document ??= openApiDocument(all())
        return { status: 200, body: document }
      },
    }),
    publicRoute({
      key: 'GET /workflow-schema',
      summary: 'The JSON Schema of a definition with every tool’s parameters and outputs, for editors',
      responses: { 200: z.looseObject({ properties: z.looseObject({}) }) },
      async open(context) {
        requireDocs(context)
        schema ??= workflowSchema()
        return { status: 200, body: schema }
      },
    }),
    publicRoute({
      key: 'GET /docs',
      summary: 'This description as a page',
      contentType: 'text/html',
      responses: { 200: null },
      async open(context, _services, _request, response) {
        requireDocs(context)
        sendDocsPage(response)
        return null
      },
    }),
  ]
}

function requireDocs(context: Pick<Context, 'config'>): void {
  if (!context.config.http.docs)
    throw new ApiError('not_found', 'the description of this service is turned off')
}
