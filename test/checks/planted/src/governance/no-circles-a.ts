import './no-circles-b.ts'
