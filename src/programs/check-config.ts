import { checkSettings } from './check-settings.ts'

/* `npm run check-config` prints the problems of the environment, one line each, without starting anything. */

const { wrong, warnings } = checkSettings(process.env)
for (const line of wrong) process.stderr.write(`error: ${line}\n`)
for (const line of warnings) process.stderr.write(`warning: ${line}\n`)
if (wrong.length > 0) process.exitCode = 1
else
  process.stdout.write(
    `the settings are complete for ${process.env['APP_ENV'] ?? 'development'} (\`APP_ENV\`)\n`,
  )
