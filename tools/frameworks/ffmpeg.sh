# does: make a film, convert it, take pictures from it
# version: ffmpeg -version
cd "$1/out" && ffmpeg -v error -f lavfi -i testsrc=duration=2:size=64x64:rate=10 -bitexact -c:v mpeg4 a.mp4 && ffmpeg -v error -i a.mp4 -bitexact -movflags +faststart -c copy b.mp4 && ffmpeg -v error -i b.mp4 -bitexact f-%02d.png && ls && ffprobe -v error -show_entries format=duration,nb_streams b.mp4
