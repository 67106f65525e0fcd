export { governedRun } from './governed-run/index.ts'
